"""Rescues what lapsed and promotes what is due, safe in every worker at once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from uuid import UUID

from django_jobs.operations import forget, nobody_knows, promote, rescue
from django_jobs.operations.rescue import Rescued
from django_jobs.sql import Database
from django_jobs.worker.connection import REFUSED, PrivateDatabase, brief
from django_jobs.worker.hosting import Hosting
from django_jobs.worker.thread import Rounds

logger = logging.getLogger("django_jobs.worker")

LONGEST = 5.0  # seconds between two looks
LONGEST_BUSY = 1.0  # where no bell tells of a job that is due soon
FORGET_EVERY = 3600.0
WARN_EVERY = 60.0


class Sweeper:
    """One probe statement a look; only steps with work run, each its own transaction."""

    def __init__(
        self,
        *,
        database: PrivateDatabase,
        worker: UUID,
        backend: str,
        quiet: float,
        found_work: Callable[[], None],
        buried: Callable[[Rescued], None],
        queues_seen: Callable[[list[str]], None] | None,
        is_idle: Callable[[], bool],
        hosting: Hosting,
        unknown_task_seconds: float,
    ) -> None:
        """``is_idle``: enqueues ring for this worker.

        ``queues_seen`` takes the queues with ready jobs; None: they are configured.
        """
        self.database = database
        self._worker = worker
        self._backend = backend
        self._quiet = quiet
        self._found_work = found_work
        self._buried = buried
        self._queues_seen = queues_seen
        self._is_idle = is_idle
        self._hosting = hosting
        self._unknown_task_seconds = unknown_task_seconds
        self._warn_at = monotonic()
        self._in_vain = 0.0  # the last pause after a promotion that found rows locked
        self._forget_at = monotonic()
        self._refused: set[int] = set()  # leases that were told of
        self.rounds = Rounds("jobs-sweeper", self.sweep, database.close)

    def sweep(self) -> float:
        """Do what is to be done now; return the seconds until the next look."""
        lapse_in, due_in = self.database.fetch("look", {})[0]
        pause = LONGEST if self._is_idle() else LONGEST_BUSY
        if lapse_in is not None:
            pause = min(pause, max(lapse_in, 0.0) or self._rescue())
        if due_in is not None:
            pause = min(pause, max(due_in, 0.0) or self._promote())
        if monotonic() > self._forget_at:
            self._forget_at = monotonic() + FORGET_EVERY
            forget.forget(database=self.database)
        if self._queues_seen is not None:
            self._queues_seen(ready_queues(self._backend, database=self.database))
        if self._hosting.is_stale:  # late, for it may import slow modules
            self._hosting.refresh(self.database)
            self._found_work()
        if self._hosting.asks_for_tasks and monotonic() > self._warn_at:
            self._warn_at = monotonic() + min(WARN_EVERY, self._unknown_task_seconds)
            self._warn_of_unknown()
        return max(pause, 0.01)

    def _warn_of_unknown(self) -> None:
        after = self._unknown_task_seconds
        for task in nobody_knows.nobody_knows(after=after, database=self.database):
            logger.warning(
                "no live worker has known the task %.200s for %.0f s, and jobs of it wait",
                task,
                after,
            )

    def _rescue(self) -> float:
        """Rescue a batch; return the seconds until the next try."""
        try:
            rescued = rescue.rescue(quiet=self._quiet, database=self.database)
        except REFUSED:
            rescued = self._rescue_one_by_one()
        for job in rescued:
            logger.warning(
                "job %s rescued: its worker was lost on attempt %s; now %s",
                job.id,
                job.attempt,
                job.state,
            )
            if job.state != "scheduled":
                self._buried(job)
        return 0.0 if rescued else min(self._quiet / 4, 1.0)

    def _rescue_one_by_one(self) -> list[Rescued]:
        """Rescue what can be; a job whose row the database will not change stays behind."""
        rescued = []
        for lease in rescue.lapsed(database=self.database):
            try:
                rescued += rescue.rescue(quiet=self._quiet, database=self.database, only=lease)
            except REFUSED as error:
                if lease not in self._refused:
                    self._refused.add(lease)
                    logger.error(  # noqa: TRY400 - whose trace would be ours, the fault is not
                        "the job of lease %s cannot be rescued: %s", lease, brief(error)
                    )
        return rescued

    def _promote(self) -> float:
        """Promote a batch; return the seconds until the next try."""
        if promote.promote(worker=self._worker, database=self.database):
            self._found_work()
            self._in_vain = 0.0
            return 0.0
        self._in_vain = min(max(self._in_vain * 2, 0.1), 1.0)  # somebody else is at it
        return self._in_vain


def ready_queues(backend: str, *, database: Database) -> list[str]:
    """Return the names of all queues that have ready jobs."""
    return [row[0] for row in database.fetch("queues", {"backend": backend})]
