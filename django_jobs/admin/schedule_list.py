"""The list of schedules: its filters, and what it reads beside the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from django_jobs.admin import schedule_page
from django_jobs.admin.aliases import job_aliases, jobs_database
from django_jobs.admin.badges import SCHEDULES
from django_jobs.admin.bounded import BoundedChangeList
from django_jobs.admin.filters import ValueFilter
from django_jobs.admin.schedule_figures import (
    STANDINGS,
    Settings,
    complete,
    firing_backends,
    stands,
)
from django_jobs.admin.schedule_warnings import Warned, of_all

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin


class StandingFilter(ValueFilter):
    """Whether it fires."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, Any]]:
        """Offer every state."""
        return [(name, SCHEDULES[name][1]) for name in STANDINGS]

    def matching(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep the schedules in a state."""
        wanted = STANDINGS.get(value)
        return queryset.none() if wanted is None else queryset.filter(wanted)


class BackendFilter(ValueFilter):
    """The backend of a schedule."""

    title = gettext_lazy("backend")
    parameter_name = "backend"

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, Any]]:
        """Offer those of the settings, when there are several."""
        found = self._choices(options.alias for options in job_aliases())
        return found if len(found) > 1 else []


class ScheduleChangeList(BoundedChangeList):
    """Reads what belongs to the rows of the page, and what is wrong, in three statements more."""

    warned: list[Warned]

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of this page, and the rest."""
        super().get_results(request)
        database, settings = jobs_database(), Settings()
        complete(self.result_list, settings, database=database)
        site = self.model_admin.admin_site
        for schedule in self.result_list:
            schedule.job = schedule_page.job_namer(request, site)
            schedule.buttons = schedule_page.buttons(request, schedule, site)
        fired = firing_backends(database)
        self.warned = list(of_all(stands(database), settings, fired))
