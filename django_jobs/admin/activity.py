"""Who did what, when and why."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from django_jobs.admin.moments import when
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.models import Activity


@admin.register(Activity)
class ActivityAdmin(ReadOnlyAdmin):
    """The record of operators' acts, the latest first."""

    list_display = ("number", "moment", "actor_name", "verb", "count", "scope", "reason", "via")
    list_filter = ()
    ordering = ("-pk",)
    fields = ("number", "moment", "actor_name", "actor_id", "verb", "count", "scope", "reason",
              "via")  # fmt: skip
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return acts, with the database's time."""
        acts: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return acts

    @admin.display(description=gettext_lazy("act"))
    def number(self, activity: Activity) -> str:
        """The id, to which events of jobs point."""
        return str(activity.pk)

    @admin.display(description=gettext_lazy("time"))
    def moment(self, activity: Any) -> SafeString | str:
        """When it happened."""
        return when(activity.at, now=activity.now)
