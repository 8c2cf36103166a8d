"""Who did what, when and why."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext

from django_jobs.admin.cells import labelled
from django_jobs.admin.moments import when
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.models import Activity

OF_NO_JOBS = frozenset({"pause", "resume", "set_limit", "disable_schedule", "enable_schedule"})


@admin.register(Activity)
class ActivityAdmin(ReadOnlyAdmin):
    """The record of operators' acts, the latest first."""

    list_display = ("number", "moment", "who", "verb", "jobs", "about", "reason", "via")
    list_filter = ()
    ordering = ("-pk",)
    fields = ("number", "moment", "who", "user", "verb", "jobs", "about", "reason", "via")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return acts, with the database's time."""
        acts: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return acts

    @admin.display(description=gettext_lazy("number"))
    def number(self, activity: Activity) -> str:
        """The id, to which events of jobs point."""
        return str(activity.pk)

    @admin.display(description=gettext_lazy("when"))
    def moment(self, activity: Any) -> SafeString | str:
        """When it happened."""
        return when(activity.at, now=activity.now)

    @admin.display(description=gettext_lazy("who"))
    def who(self, activity: Activity) -> str:
        """The name of the actor, as it was then."""
        return activity.actor_name

    @admin.display(description=gettext_lazy("id of the user"))
    def user(self, activity: Activity) -> str | None:
        """The key of the actor, who may be no user of this site."""
        return activity.actor_id

    @admin.display(description=gettext_lazy("jobs"))
    def jobs(self, activity: Activity) -> SafeString:
        """How many jobs it changed; one on a queue, a limit or a schedule may change none."""
        if activity.verb in OF_NO_JOBS:
            return SafeString("")
        return labelled(activity.count, ngettext("job", "jobs", activity.count))

    @admin.display(description=gettext_lazy("about"))
    def about(self, activity: Activity) -> str:
        """What it was about, in words."""
        return activity.scope
