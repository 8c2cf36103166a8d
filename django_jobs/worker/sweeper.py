"""Rescues what lapsed and promotes what is due, safe in every worker at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple
from uuid import UUID

from django_jobs.operations import expire, forget, nobody_knows, promote, rescue
from django_jobs.operations.expire import Expired
from django_jobs.operations.follow import wake
from django_jobs.operations.free import Freed, set_free, strays
from django_jobs.operations.reconcile import reconcile
from django_jobs.operations.rescue import Rescued
from django_jobs.sql import Database, text_array
from django_jobs.sql.private import brief
from django_jobs.worker import report
from django_jobs.worker.connection import REFUSED, PrivateDatabase
from django_jobs.worker.hosting import Hosting
from django_jobs.worker.retention import Retention
from django_jobs.worker.thread import Rounds
from django_jobs.worker.timetable import Timetable

logger = logging.getLogger("django_jobs.worker")

LONGEST = 5.0  # seconds between two looks
LONGEST_BUSY = 1.0  # where no bell tells of a job that is due soon
FIRE_AGAIN = 1.0
FORGET_EVERY = 3600.0
WARN_EVERY = 60.0
RECONCILE_EVERY = 15.0  # a run that commits by itself leaves its permit to be counted


class Look(NamedTuple):
    """What the probe says; times in seconds from now, negative when late."""

    lapse_in: float | None
    due_in: float | None
    expires_in: float | None
    fires_in: float | None
    differs: bool  # the rows of schedules are not those of this worker's settings
    wakeable: list[str]  # keys with room and blocked jobs
    after: str  # the last key looked at; empty: there was no more
    drifted: list[str] | None  # keys whose permits in use are not their leases; None: not asked
    waiting: bool  # there are jobs that wait for others


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
        buried: Callable[[Rescued | Expired | Freed], None],
        queues_seen: Callable[[list[str]], None] | None,
        is_idle: Callable[[], bool],
        hosting: Hosting,
        unknown_task_seconds: float,
        timetable: Timetable | None,
        retention: Retention,
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
        self._timetable = timetable
        self._retention = retention
        self._warn_at = monotonic()
        self._in_vain = 0.0  # the last pause after a promotion that found rows locked
        self._forget_at = monotonic()
        self._reconcile_at = monotonic()
        self._after = ""
        self._stray_after = 0  # where the round through the waiting jobs goes on
        self._refused: set[int] = set()  # leases that were told of
        self.rounds = Rounds("jobs-sweeper", self.sweep, database.close)

    def sweep(self) -> float:
        """Do what is to be done now; return the seconds until the next look."""
        if self._timetable is not None and self._timetable.is_new:
            self._timetable.put()
        look = self._look()
        pause = min(LONGEST if self._is_idle() else LONGEST_BUSY, self._do(look))
        if wakeable := {*look.wakeable, *self._reconcile(look.drifted)}:
            self._wake(wakeable)
        if look.waiting:
            self._free_strays()
        if monotonic() > self._forget_at:
            self._forget_at = monotonic() + FORGET_EVERY
            forget.forget(database=self.database)
        if self._queues_seen is not None:
            self._queues_seen(ready_queues(self._backend, database=self.database))
        self._mind_placements()
        return max(min(pause, self._retention.turn()), 0.01)

    def _do(self, look: Look) -> float:
        """Do what is late; return the seconds until something will be."""
        pause = LONGEST_BUSY if look.after else LONGEST
        if look.lapse_in is not None:
            pause = min(pause, max(look.lapse_in, 0.0) or self._rescue())
        if look.expires_in is not None:  # before more of them are made ready
            pause = min(pause, max(look.expires_in, 0.0) or self._expire())
        if look.differs and self._timetable is not None and self._timetable.put():
            pause = 0.0  # what was written may be due at once
        if look.fires_in is not None:
            pause = min(pause, max(look.fires_in, 0.0) or self._fire())
        if look.due_in is not None:
            pause = min(pause, max(look.due_in, 0.0) or self._promote())
        return pause

    def _mind_placements(self) -> None:
        if self._hosting.is_stale:  # late, for it may import slow modules
            self._hosting.refresh(self.database)
            self._found_work()
        if self._hosting.asks_for_tasks and monotonic() > self._warn_at:
            self._warn_at = monotonic() + min(WARN_EVERY, self._unknown_task_seconds)
            self._warn_of_unknown()

    def _look(self) -> Look:
        now = monotonic()
        asked = now > self._reconcile_at
        cron = self._timetable
        params = {
            "after": self._after,
            "reconcile": asked,
            "backend": self._backend,
            "digests": None if cron is None else text_array(cron.digests),
            "later": text_array([] if cron is None else cron.later),
        }
        look = Look(*self.database.fetch("look", params)[0])
        self._after = look.after
        if asked:
            self._reconcile_at = now + RECONCILE_EVERY
        return look

    def _reconcile(self, keys: list[str] | None) -> list[str]:
        """Right the permits of these keys; return those that may have room now."""
        if not keys:
            return []
        transaction = self.database.connection().transaction()
        righted = reconcile(keys, transaction=transaction, database=self.database)
        for limit in righted:
            logger.warning(
                "limit %s: %s permits in use, but %s leases; now %s",
                limit.key,
                limit.said,
                limit.held,
                limit.held,
            )
        return [limit.key for limit in righted]

    def _wake(self, keys: set[str]) -> None:
        """Wake what a crash between a settle and its wake has left blocked."""
        if wake(keys, worker=self._worker, database=self.database):
            self._found_work()

    def _expire(self) -> float:
        """Let a batch expire; return the seconds until the next try."""
        expired = expire.expire(database=self.database)
        for job in expired:
            logger.info("job %s expired before it could start", job.id)
            self._buried(job)
        if parents := [job.id for job in expired if job.has_children]:
            self._free(parents)
        return 0.0 if expired else LONGEST_BUSY  # somebody else is at it

    def _free(self, parents: Iterable[int] = (), *, children: Iterable[int] = ()) -> None:
        """Free who waited for jobs that have ended; announce whom that cancels."""
        freed = set_free(parents, children=children, worker=self._worker, database=self.database)
        for job in freed:
            if job.state == "cancelled":
                self._buried(job)
        if freed:
            self._found_work()

    def _free_strays(self) -> None:
        """Free what a crash between the end of a job and the freeing has left waiting."""
        found, onwards = strays(after=self._stray_after, database=self.database)
        self._stray_after = onwards
        if found:
            self._free(children=found)

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
            else:
                report.rescued(job)
        if parents := [job.id for job in rescued if job.has_children]:
            self._free(parents)
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

    def _fire(self) -> float:
        """Fire the schedules that are due; return the seconds until the next try."""
        if self._timetable is not None and self._timetable.fire():
            self._found_work()
            return 0.0
        return FIRE_AGAIN  # another worker was first, or it cannot be done

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
