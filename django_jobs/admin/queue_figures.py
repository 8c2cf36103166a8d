"""What the database says of the queues, all of them or one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.safestring import SafeString

from django_jobs.admin.aliases import job_aliases, jobs_database, queue_names
from django_jobs.admin.badges import health_badge
from django_jobs.admin.bounded import MOST, time_limit
from django_jobs.admin.moments import duration, marked, when
from django_jobs.operations.queue_state import QueueState
from django_jobs.sql import SiteDatabase

MOST_QUEUES = 200


class Name(NamedTuple):
    """By what a queue is known."""

    backend: str
    queue: str


@dataclass(frozen=True, slots=True)
class Figures(QueueState):
    """One queue, and the words for it."""

    @property
    def waiting(self) -> str:
        """How many jobs are ready, said no more exactly than they were counted."""
        return "10k+" if self.ready > MOST else number_format(self.ready)

    @property
    def waits(self) -> SafeString | str:
        """How long the oldest of them has waited."""
        if self.oldest is None or self.age is None:
            return ""
        return marked(self.oldest, duration(self.age))

    @property
    def since(self) -> SafeString | str:
        """When it was paused."""
        return when(self.paused_at, now=self.now) if self.paused else ""

    @property
    def until(self) -> SafeString | str:
        """When its pause ends by itself."""
        return when(self.paused_until, now=self.now) if self.paused else ""

    @property
    def health(self) -> SafeString:
        """One word for it."""
        return health_badge(self.state)


def figures() -> list[Figures]:
    """Return every queue that settings, operators or live jobs name, in one statement."""
    return _figures(
        [Name(each.alias, name) for each in job_aliases() for name in queue_names(each)]
    )


def figures_of(name: Name) -> Figures:
    """Return one queue, which need not be known to anybody."""
    [found] = _figures([name], only=True)
    return found


def _figures(known: list[Name], *, only: bool = False) -> list[Figures]:
    with time_limit(jobs_database()):
        return Figures.read(
            known,
            only=only,
            counted=MOST,
            most=MOST_QUEUES,
            database=SiteDatabase(jobs_database()),
        )
