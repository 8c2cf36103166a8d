"""What every page keeps: rows are read, and changed only by named verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import OperationalError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_jobs.admin.aliases import jobs_database
from django_jobs.admin.bounded import (
    SECONDS,
    BoundedChangeList,
    BoundedPaginator,
    time_limit,
    was_stopped,
)

if TYPE_CHECKING:
    AnyModelAdmin = admin.ModelAdmin[Any]
else:  # Django's own class takes no parameters when the program runs
    AnyModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(AnyModelAdmin):
    """A list and a page without a form: nobody adds, edits or deletes a row by hand."""

    paginator = BoundedPaginator
    list_per_page = 100
    list_max_show_all = 0
    list_select_related = False
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()

    class Media:
        css = {"all": ["django_jobs/admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Jobs are enqueued, the rest is written by workers."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Verbs change rows, each with a permission of its own; a form never does."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Only a purge deletes."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of the database that holds the jobs."""
        return super().get_queryset(request).using(jobs_database())

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        """Refuse to filter by anything but the filters of the page: it would be a scan."""
        filters: Any = self.list_filter
        return lookup in {each.parameter_name for each in filters}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that stays within bounds."""
        return BoundedChangeList

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Read the list; what takes too long is told, and the whole list shown instead."""
        try:
            with time_limit(jobs_database()):
                return super().get_changelist_instance(request)
        except OperationalError as error:
            self.tell_if_stopped(request, error)
            raise IncorrectLookupParameters from error

    def demand_look(self, request: HttpRequest) -> None:
        """Refuse whoever may not view the rows, and a form: no page of a row has one."""
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied

    def tell_if_stopped(self, request: HttpRequest, error: OperationalError) -> None:
        """Tell the user that the time limit ended a statement; another error is raised again."""
        if not was_stopped(error):
            raise error
        text = _("This took longer than %d seconds and was stopped; nothing was changed.")
        self.message_user(request, text % SECONDS, messages.ERROR)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list; refuse an action that this user may not take."""
        if request.method == "POST":
            self._judge(request)
        title = {"title": capfirst(self.opts.verbose_name_plural)}
        return super().changelist_view(request, {**title, **(extra_context or {})})

    def page_context(self, request: HttpRequest, *, original: Any, title: str) -> dict[str, Any]:
        """Return what the admin's own templates need for a page that is no form."""
        request.current_app = self.admin_site.name
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "has_view_permission": True,
            "original": original,
            "title": title,
        }

    def own_url(self, name: str, *args: object) -> str:
        """Return the address of one of the pages of this model."""
        full = f"admin:{self.opts.app_label}_{self.opts.model_name}_{name}"
        return reverse(full, args=args, current_app=self.admin_site.name)

    def _judge(self, request: HttpRequest) -> None:
        """Answer 403 where Django would show the list again, and 400 where it would fail."""
        asked = set(filter(None, request.POST.getlist("action")))
        allowed = set(self.get_actions(request))
        if not allowed or asked - allowed:
            raise PermissionDenied
        for pk in request.POST.getlist(ACTION_CHECKBOX_NAME):
            if not (pk.isascii() and pk.isdigit() and len(pk) < 20):  # noqa: PLR2004 - bigint
                raise BadRequest(pk[:20])
