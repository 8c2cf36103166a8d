"""What else the pages of schedules say: the settings, who fires, and the jobs that were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from django_jobs.admin.aliases import job_aliases
from django_jobs.admin.cells import due
from django_jobs.admin.schedule_words import read
from django_jobs.conf import InvalidOption
from django_jobs.conf.cron import CronEntry
from django_jobs.models import Job, Schedule, Worker

MOST = 1000  # schedules, or workers, that are looked at
SHOWN_JOBS = 20  # of one schedule
LATE = 10.0  # seconds after which one that is due is called late: workers wake for each

HOLDING_OFF = ("enabled", "disabled_at", "gone_at")  # the columns that say whether it fires

Standing = Literal["enabled", "disabled", "off", "removed"]
ENABLED = Q(gone_at__isnull=True, disabled_at__isnull=True, enabled=True)
STANDINGS = {
    "enabled": ENABLED,
    "due": ENABLED & Q(next_at__lte=Now()),
    "disabled": Q(gone_at__isnull=True, disabled_at__isnull=False),
    "off": Q(gone_at__isnull=True, disabled_at__isnull=True, enabled=False),
    "removed": Q(gone_at__isnull=False),
}


def standing(schedule: Schedule) -> Standing:
    """Return one word for whether it fires; the weightiest when there are several."""
    if schedule.gone_at is not None:
        return "removed"
    if schedule.disabled_at is not None:
        return "disabled"
    return "enabled" if schedule.enabled else "off"


def is_due(schedule: Any) -> bool:
    """Tell whether an occurrence has come for which nobody has fired it yet."""
    is_on = standing(schedule) == "enabled"
    return is_on and schedule.next_at is not None and schedule.next_at <= schedule.now


def is_late(schedule: Any) -> bool:
    """Tell whether it should have been fired long ago."""
    return is_due(schedule) and (schedule.now - schedule.next_at).total_seconds() > LATE


class Said(NamedTuple):
    """What the settings of this process say of the schedules of one backend."""

    entries: Mapping[str, CronEntry]
    fault: str = ""  # why they cannot be read


class Settings:
    """The schedules in the settings of this process, read once for a page."""

    def __init__(self) -> None:
        """Find the backends that are ours."""
        self._options = {each.alias: each for each in job_aliases()}
        self.of = cache(self._of)

    def _of(self, backend: str) -> Said:
        options = self._options.get(backend)
        if options is None:
            return Said({})
        try:
            return Said(options.cron)
        except InvalidOption as error:
            return Said({}, str(error))

    def entry(self, schedule: Schedule) -> CronEntry | None:
        """Return the entry of a row's name."""
        return self.of(schedule.backend).entries.get(schedule.name)

    @property
    def backends(self) -> list[str]:
        """The aliases of the backends that are ours."""
        return list(self._options)

    def unwritten(self, backend: str, rows: Iterable[Stand]) -> list[str]:
        """Return the entries of which no worker has made a row."""
        known = {row.name for row in rows if row.backend == backend}
        return [name for name in self.of(backend).entries if name not in known]


class Stand(NamedTuple):
    """A row, as far as the sentences above the list need it."""

    backend: str
    name: str
    fires: bool
    is_late: bool


def stands(database: str) -> list[Stand]:
    """Return all rows in short."""
    rows = Schedule.objects.using(database).only("backend", "name", "next_at", *HOLDING_OFF)
    ordered = rows.order_by("backend", "name").annotate(now=Now())[:MOST]
    return [
        Stand(row.backend, row.name, standing(row) == "enabled", is_late(row)) for row in ordered
    ]


def firing_backends(database: str) -> frozenset[str]:
    """Return the backends whose schedules some live worker fires."""
    workers: QuerySet[Any] = Worker.objects.using(database).filter(cron=True).unstopped()
    heard = workers.last_heard_of_first()[:MOST]  # type: ignore[attr-defined]
    return frozenset(each.backend for each in heard if each.health_at(each.now) != "gone")


@dataclass(frozen=True, slots=True)
class Made:
    """A job that a schedule has made."""

    pk: int
    state: str
    occurrence: datetime | None  # None: somebody ran the schedule by hand
    enqueued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    now: datetime

    @property
    def late(self) -> float | None:
        """How many seconds after its occurrence it was enqueued."""
        if self.occurrence is None:
            return None
        return max((self.enqueued_at - self.occurrence).total_seconds(), 0.0)

    @property
    def seconds(self) -> float | None:
        """How long its latest attempt has run, or ran."""
        if self.started_at is None:
            return None
        return max(((self.finished_at or self.now) - self.started_at).total_seconds(), 0.0)


COLUMNS = ("pk", "state", "occurrence", "enqueued_at", "last_attempted_at", "finished_at", "now")


def _made(jobs: QuerySet[Job]) -> list[Made]:
    rows = jobs.annotate(occurrence=due("scheduled_for"), now=Now()).values_list(*COLUMNS)
    return [Made(*row) for row in rows]


def last_jobs(schedules: Sequence[Schedule], *, database: str) -> dict[int, Made]:
    """Return the last job of each, by its id; of one that was purged nothing."""
    ids = [each.last_job for each in schedules if each.last_job is not None]
    jobs = Job.objects.using(database).filter(pk__in=ids)
    return {made.pk: made for made in _made(jobs)}


def newest_jobs(schedule: Schedule, *, database: str) -> list[Made]:
    """Return the last jobs of one schedule, newest first."""
    jobs = Job.objects.using(database).filter(backend=schedule.backend, schedule=schedule.name)
    return _made(jobs.order_by("-pk")[:SHOWN_JOBS])


def complete(schedules: Sequence[Any], settings: Settings, *, database: str) -> None:
    """Give each row its reading, its last job, and the entry in the settings."""
    made = last_jobs(schedules, database=database)
    for schedule in schedules:
        schedule.reading = read(schedule.schedule, schedule.timezone)
        schedule.made = made.get(schedule.last_job)
        schedule.entry = settings.entry(schedule)
