"""The limits: who holds which key until when, who waits for it, and its size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin import ListFilter
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_jobs.admin.aliases import jobs_database
from django_jobs.admin.bounded import BoundedChangeList
from django_jobs.admin.cells import job_url, labelled, worker_namer
from django_jobs.admin.limit_figures import Figures, Holder, figures_of
from django_jobs.admin.limit_page import SizeForm, limit_url, may_change
from django_jobs.admin.moments import duration, marked, when
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.admin.verbs import actor_of
from django_jobs.exceptions import Refused
from django_jobs.models import Limit
from django_jobs.operations.set_limit import set_limit

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

TASK_CHARS = 80


class InUseFilter(admin.SimpleListFilter):
    """Those that somebody holds, or that an operator gave a size."""

    title = gettext_lazy("use")
    parameter_name = "use"

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, Any]]:
        """Offer both."""
        return [("held", _("in use")), ("set", _("size set by an operator"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep them."""
        match self.value():
            case "held":
                return queryset.filter(in_use__gt=0)
            case "set":
                return queryset.filter(override__isnull=False)
            case _:
                return queryset


class LimitChangeList(BoundedChangeList):
    """Reads who holds the keys of the page, and who waits, in one statement more."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of this page, and what belongs to them."""
        super().get_results(request)
        complete(self.result_list, request, self.model_admin.admin_site)


def complete(limits: Sequence[Any], request: HttpRequest, site: admin.AdminSite) -> None:
    """Give each limit its figures, and how its cells name others to this user."""
    keys = [limit.key for limit in limits]
    found = figures_of(keys, database=jobs_database()) if keys else {}
    link, name = _job_namer(request, site), worker_namer(request, site)
    for limit in limits:
        limit.figures = found.get(limit.key, Figures())
        limit.job, limit.worker, limit.may_change = link, name, may_change(request)


def _job_namer(request: HttpRequest, site: admin.AdminSite) -> Callable[[int], str]:
    """Return how to name a job to this user: with a link to those who may follow it."""
    if not request.user.has_perm("django_jobs.view_job"):
        return str

    def link(pk: int) -> SafeString:
        return format_html('<a href="{}">{}</a>', job_url(pk, site), pk)

    return link


@admin.register(Limit)
class LimitAdmin(ReadOnlyAdmin):
    """Every key of which a job has been claimed; the list and its one verb."""

    list_display = ("name", "use", "holders", "waiting", "oldest", "verb")
    list_display_links = None
    list_filter: ClassVar[tuple[type[ListFilter], ...]] = (InUseFilter,)
    ordering = ("key",)
    search_fields = ("key",)
    search_help_text = gettext_lazy("The whole key")

    def get_urls(self) -> list[URLPattern]:
        """Add the verb."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_size"
        own = path("size/", self.admin_site.admin_view(self.size_view), name=name)
        return [own, *super().get_urls()]

    # The list

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return limits, with the database's time."""
        rows = super().get_queryset(request).only("key", "size", "override", "in_use", "every")
        limits: QuerySet[Any] = rows.annotate(now=Now())
        return limits

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that reads the figures too."""
        return LimitChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find one limit by its key."""
        if not search_term:
            return queryset, False
        if "\0" in search_term:  # no text in PostgreSQL has one
            return queryset.none(), False
        return queryset.filter(key=search_term), False

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Lead from the row of a limit to the list with it alone."""
        self.demand_look(request)
        row = self._find(request, unquote(object_id))
        if row is None:
            return self._unknown(request)
        return HttpResponseRedirect(limit_url(row.key, self.admin_site))

    @admin.display(description=gettext_lazy("key"))
    def name(self, limit: Limit) -> str:
        """The key."""
        return limit.key

    @admin.display(description=gettext_lazy("in use"))
    def use(self, limit: Any) -> SafeString:
        """How many of its places are taken, and who says how many there are."""
        size = limit.size if limit.override is None else limit.override
        taken = str(limit.in_use) if size is None else f"{limit.in_use}/{size}"
        html = labelled(taken, _("in use"))
        if limit.override is not None:
            own = _("no size") if limit.size is None else limit.size
            text = _("set by an operator; jobs say %s") % own
            html += format_html('<br><span class="quiet">{}</span>', text)
        if limit.every:
            text = _("one start every %s") % duration(limit.every)
            html += format_html('<br><span class="quiet">{}</span>', text)
        return SafeString(html)

    @admin.display(description=gettext_lazy("held by"))
    def holders(self, limit: Any) -> SafeString | str:
        """The jobs that take its places, until when; the first of them."""
        rows = ((self._holder(limit, each),) for each in limit.figures.holders)
        html = format_html_join("", "<div>{}</div>", rows)
        more = limit.figures.unnamed
        if more > 0:
            text = ngettext("… and %d more", "… and %d more", more) % more
            html += format_html('<div class="quiet">{}</div>', text)
        return html or labelled(_("nobody"), _("holds it"))

    def _holder(self, limit: Any, holder: Holder) -> SafeString:
        words = _("lease ended %s") if holder.until <= limit.now else _("lease ends %s")
        lease = words.split("%s")
        return format_html(
            '{} {}<br><span class="quiet">{}, {}{}{}</span>',
            limit.job(holder.job), Truncator(holder.task).chars(TASK_CHARS),
            limit.worker(holder.worker, holder.label),
            lease[0], when(holder.until, now=limit.now), lease[1],
        )  # fmt: skip

    @admin.display(description=gettext_lazy("waiting"))
    def waiting(self, limit: Any) -> SafeString:
        """How many jobs wait for a place."""
        return labelled(limit.figures.waits, _("waiting"))

    @admin.display(description=gettext_lazy("oldest"))
    def oldest(self, limit: Any) -> SafeString | str:
        """When the oldest of them was enqueued."""
        at = limit.figures.oldest
        if at is None:
            return ""
        age = duration(max((limit.now - at).total_seconds(), 0.0))
        return marked(at, _("enqueued %s ago") % age)

    @admin.display(description="")
    def verb(self, limit: Any) -> SafeString | str:
        """The button; it posts the form that the list is in."""
        if not limit.may_change:
            return ""
        return format_html(
            '<button type="submit" class="button" formaction="{}" name="key" value="{}">{}'
            '<span class="visually-hidden"> {}</span></button>',
            self.own_url("size"), limit.key, _("Change size…"), limit.key,
        )  # fmt: skip

    # The verb

    def size_view(self, request: HttpRequest) -> HttpResponse:
        """Ask how many and why, then change the size."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not may_change(request):
            raise PermissionDenied
        limit = self._find(request, request.POST.get("key", ""))
        if limit is None:
            return self._unknown(request)
        form = self._form(request, limit)
        if not form.is_valid() or not self._set(request, limit, form):
            return self._ask(request, limit, form)
        size = form.cleaned_data["size"]
        text = _("The limit %(key)s is %(size)d now.") if size is not None else _(
            "The limit %(key)s is what its jobs say again."
        )  # fmt: skip
        words = text % {"key": limit.key, "size": size}
        self.message_user(request, words, messages.SUCCESS)
        return HttpResponseRedirect(limit_url(limit.key, self.admin_site))

    def _find(self, request: HttpRequest, key: str) -> Any:
        if "\0" in key:  # no text in PostgreSQL has one
            return None
        return self.get_queryset(request).filter(key=key).first()

    def _form(self, request: HttpRequest, limit: Limit) -> SizeForm:
        """Return what was filled in, or the form that asks."""
        if "asked" in request.POST:
            return SizeForm(request.POST)
        return SizeForm(initial={"size": limit.override})

    def _set(self, request: HttpRequest, limit: Limit, form: SizeForm) -> bool:
        """Do what the form says; a refusal becomes an error of the form."""
        try:
            set_limit(
                limit.key, form.cleaned_data["size"], actor=actor_of(request),
                reason=form.cleaned_data["reason"], database=jobs_database(),
            )  # fmt: skip
        except (Refused, ValueError) as error:
            form.add_error(None, str(error))
            return False
        return True

    def _ask(self, request: HttpRequest, limit: Any, form: SizeForm) -> HttpResponse:
        """Show how the limit stands, and ask."""
        complete([limit], request, self.admin_site)
        title = _("Change the size of the limit %s") % limit.key
        context = {
            **self.page_context(request, original=limit.key, title=title),
            "limit": limit,
            "use": self.use(limit),
            "holders": self.holders(limit),
            "form": form,
            "action": self.own_url("size"),
            "back": limit_url(limit.key, self.admin_site),
        }
        return TemplateResponse(request, "admin/django_jobs/limit/size.html", context)

    def _unknown(self, request: HttpRequest) -> HttpResponse:
        self.message_user(request, _("There is no such limit."), messages.WARNING)
        return HttpResponseRedirect(self.own_url("changelist"))
