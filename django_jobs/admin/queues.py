"""The queues: who waits, how long, and whether anybody serves them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.safestring import SafeString

from django_jobs.admin.aliases import (
    job_aliases,
    jobs_database,
    queue_names,
    slots,
)
from django_jobs.admin.badges import health_badge
from django_jobs.admin.bounded import MOST, time_limit
from django_jobs.admin.moments import duration, marked, when
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.conf.options import DEFAULT_SLOTS
from django_jobs.models import Queue
from django_jobs.sql import SiteDatabase

MOST_QUEUES = 200


@dataclass(frozen=True, slots=True)
class Figures:
    """One queue as the database sees it now."""

    backend: str
    name: str
    ready: int
    oldest: datetime | None
    running: int
    own_slots: int | None
    paused: bool
    paused_until: datetime | None
    workers: int
    now: datetime

    @property
    def waiting(self) -> str:
        """How many jobs are ready, said no more exactly than they were counted."""
        return "10k+" if self.ready > MOST else number_format(self.ready)

    @property
    def waits(self) -> SafeString | str:
        """How long the oldest of them has waited."""
        if self.oldest is None:
            return ""
        age = max((self.now - self.oldest).total_seconds(), 0.0)
        return marked(self.oldest, duration(age))

    @property
    def until(self) -> SafeString | str:
        """When its pause ends by itself."""
        return when(self.paused_until, now=self.now) if self.paused else ""

    @property
    def health(self) -> SafeString:
        """One word for it."""
        if self.paused:
            return health_badge("paused")
        return health_badge("unserved" if self.ready and not self.workers else "ok")


def figures() -> list[Figures]:
    """Return every queue that settings, operators or live jobs name, in one statement."""
    known = [(each.alias, name) for each in job_aliases() for name in queue_names(each)]
    params = {
        "backends": [alias for alias, _name in known],
        "queues": [name for _alias, name in known],
        "counted": MOST,
        "most": MOST_QUEUES,
    }
    with time_limit(jobs_database()):
        rows = SiteDatabase(jobs_database()).fetch("queue_figures", params)
    return [Figures(*row) for row in rows]


@admin.register(Queue)
class QueueAdmin(ReadOnlyAdmin):
    """Every queue is listed; most have no row of their own."""

    list_display = ("name",)
    list_filter = ()
    ordering = ("backend", "name")
    change_list_template = "admin/django_jobs/queue/list.html"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show all queues with their figures."""
        rows: list[dict[str, Any]] = []
        if self.has_view_permission(request):
            rows = [self._row(each) for each in figures()]
        return super().changelist_view(request, {"queues": rows, **(extra_context or {})})

    def _row(self, queue: Figures) -> dict[str, Any]:
        jobs = reverse("admin:django_jobs_job_changelist", current_app=self.admin_site.name)
        said = {each.alias: each for each in job_aliases()}.get(queue.backend)
        return {
            "queue": queue,
            "slots": queue.own_slots if said is None or queue.own_slots is not None
            else slots(said, queue.name),
            "default_slots": None if said is None else DEFAULT_SLOTS,
            "jobs": f"{jobs}?{urlencode({'queue': queue.name})}",
        }  # fmt: skip
