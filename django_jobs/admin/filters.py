"""Filters whose choices and whose rows an index finds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_jobs.admin.aliases import job_aliases, jobs_database, queue_names, schedule_names
from django_jobs.models import Job, Lease
from django_jobs.sql import SiteDatabase
from django_jobs.states import JobState

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

MOST = 200  # choices of one filter
NEWEST = 1000  # dead letters whose tasks are offered


class ValueFilter(admin.SimpleListFilter):
    """One exact value of one column; any value may stand in the address."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows with the value."""
        value = self.value()
        if value is None:
            return queryset
        if "\0" in value:  # no text in PostgreSQL has one
            return queryset.none()
        return self.matching(queryset, value)

    def matching(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep the rows with ``value``."""
        return queryset.filter(**{str(self.parameter_name): value})

    def _choices(self, values: Iterable[str]) -> list[tuple[str, str]]:
        chosen = self.value()
        return [(value, value) for value in sorted({*values, *([chosen] if chosen else ())})]


class StateFilter(ValueFilter):
    """The state of a job."""

    title = _("state")
    parameter_name = "state"

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, Any]]:
        """Offer every state that a job can be in."""
        return JobState.choices

    def matching(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep the jobs in a state; the few that run are found by their leases."""
        if value == JobState.RUNNING:
            queryset = queryset.filter(pk__in=Lease.objects.values("job_id"))
        return super().matching(queryset, value)


class QueueFilter(ValueFilter):
    """The queue of a job."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, Any]]:
        """Offer the queues that settings, operators or jobs name."""
        rows = SiteDatabase(jobs_database()).fetch("queue_names", {"most": MOST})
        named = [name for options in job_aliases() for name in queue_names(options)]
        return self._choices([*named, *(row[0] for row in rows)])


def made_by(backend: str, name: str) -> str:
    """Write which schedule is meant: its backend, where a colon is written otherwise, and name."""
    return f"{quote(backend, safe='')}:{name}"


class ScheduleFilter(ValueFilter):
    """The schedule that has made a job: its backend and its name."""

    title = _("schedule")
    parameter_name = "schedule"

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, Any]]:
        """Offer those of the settings, and the one of the address."""
        own = (made_by(of.alias, name) for of in job_aliases() for name in schedule_names(of))
        values = [value for value, _same in self._choices(own)]
        return [(value, value.removeprefix("default:")) for value in values[:MOST]]

    def matching(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep the jobs that it has made."""
        backend, _colon, name = value.partition(":")
        alias = unquote(backend)
        return queryset.none() if "\0" in alias else queryset.filter(backend=alias, schedule=name)


class DeadTaskFilter(ValueFilter):
    """The task of a dead letter."""

    title = _("task")
    parameter_name = "task"

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Iterable[tuple[str, Any]]:
        """Offer the tasks of the newest dead letters."""
        dead = Job.objects.using(jobs_database()).dead().order_by("-pk")
        return self._choices(set(dead.values_list("task", flat=True)[:NEWEST]))
