"""What the database says of queues, all of them or one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Self

from django_jobs.sql import Database

Health = Literal["paused", "unserved", "ok"]


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue as the database sees it now."""

    backend: str
    name: str
    ready: int  # one more than were to be counted: there are more
    oldest: datetime | None
    running: int
    own_slots: int | None
    paused: bool
    paused_at: datetime | None
    paused_by: str | None
    paused_reason: str | None
    paused_until: datetime | None
    workers: int
    now: datetime

    @classmethod
    def read(
        cls,
        names: Sequence[tuple[str, str]],
        *,
        only: bool = False,
        counted: int,
        most: int,
        database: Database,
    ) -> list[Self]:
        """Return every queue that ``names``, operators or live jobs name, in one statement.

        ``names``: alias in TASKS and queue; ``only``: no other queues than these. Ready jobs
        are counted up to ``counted`` of each, and ``most`` queues are returned.
        """
        params = {
            "backends": [backend for backend, _ in names],
            "queues": [queue for _, queue in names],
            "only": only,
            "counted": counted,
            "most": most,
        }
        return [cls(*row) for row in database.fetch("queue_figures", params)]

    @property
    def age(self) -> float | None:
        """For how many seconds the oldest ready job has waited; None: there is none."""
        if self.oldest is None:
            return None
        return max((self.now - self.oldest).total_seconds(), 0.0)

    @property
    def state(self) -> Health:
        """One word for it."""
        if self.paused:
            return "paused"
        return "unserved" if self.ready and not self.workers else "ok"
