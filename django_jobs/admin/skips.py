"""The skips: which host passes over which jobs, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext

from django_jobs.admin import placements
from django_jobs.admin.aliases import jobs_database
from django_jobs.admin.bounded import BoundedChangeList, time_limit
from django_jobs.admin.cells import labelled
from django_jobs.admin.moments import when
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.models import Skip


class SkipChangeList(BoundedChangeList):
    """Reads what the skips of the page are about in two statements more."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of this page, and what belongs to them."""
        super().get_results(request)
        complete(self.result_list)


def complete(skips: Sequence[Any]) -> None:
    """Give each skip what its placement asks for, and how many jobs wait behind it."""
    ids = {skip.placement for skip in skips}
    asked = placements.asked(ids, database=jobs_database()) if ids else {}
    behind = placements.ready_jobs(ids, database=jobs_database()) if ids else {}
    for skip in skips:
        skip.asked, skip.behind = asked[skip.placement], behind[skip.placement]


@admin.register(Skip)
class SkipAdmin(ReadOnlyAdmin):
    """A worker writes a row when the reason of its host changed, so there are few."""

    list_display = ("at", "requires", "code", "about", "moment", "jobs")
    list_display_links = None
    list_filter = ()
    ordering = ("-pk",)
    fields = ("at", "requires", "code", "about", "moment", "jobs")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return skips, with the database's time."""
        skips: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return skips

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that reads the placements too."""
        return SkipChangeList

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Return one skip with what belongs to it."""
        skip = super().get_object(request, object_id, from_field)
        if skip is not None:
            with time_limit(jobs_database()):
                complete([skip])
        return skip

    @admin.display(description=gettext_lazy("host"))
    def at(self, skip: Skip) -> str:
        """The name of the worker that passes over it."""
        return skip.host

    @admin.display(description=gettext_lazy("required"))
    def requires(self, skip: Any) -> str:
        """What the jobs ask of a host."""
        return str(skip.asked)

    @admin.display(description=gettext_lazy("reason"))
    def code(self, skip: Skip) -> SafeString:
        """The code of the reason, the same everywhere."""
        return format_html("<code>{}</code>", skip.reason)

    @admin.display(description=gettext_lazy("detail"))
    def about(self, skip: Skip) -> str:
        """What in particular is missing."""
        return skip.detail

    @admin.display(description=gettext_lazy("since"))
    def moment(self, skip: Any) -> SafeString | str:
        """When the reason became this one."""
        return when(skip.since, now=skip.now)

    @admin.display(description=gettext_lazy("ready jobs"))
    def jobs(self, skip: Any) -> SafeString:
        """How many jobs wait behind it, on this host and on any other."""
        return labelled(skip.behind, ngettext("ready job", "ready jobs", skip.behind.count))
