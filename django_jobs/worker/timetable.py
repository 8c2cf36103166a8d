"""The schedules of a worker's settings: written down at its start, fired when they are due."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial
from time import monotonic
from uuid import UUID

from psycopg.errors import LockNotAvailable

from django_jobs.conf.cron import CronEntry
from django_jobs.operations.fire import (
    Due,
    Fired,
    Put,
    due_schedules,
    fire,
    firing,
    put_schedules,
)
from django_jobs.operations.place import place
from django_jobs.operations.scheduled_job import ScheduleFault, announce, scheduled_job
from django_jobs.sql.private import brief
from django_jobs.worker.connection import HARMLESS, REFUSED, Failure, PrivateDatabase

logger = logging.getLogger("django_jobs.worker")

PUT_AGAIN = 5.0  # seconds between two tries to right the rows
INHERIT_AFTER = 60.0  # for so long, and in each of these tries, a version has no live worker
TOLD = 10  # schedules in the line of the start
AGAIN = 10.0  # until one that could not be fired is tried again


class Timetable:
    """Used by the sweeper's thread alone; any number of workers have the same one."""

    def __init__(
        self,
        entries: dict[str, CronEntry],
        *,
        worker: UUID,
        backend: str,
        database: PrivateDatabase,
        tell: Callable[[Callable[[], None]], None],
    ) -> None:
        """``entries``: name → what the settings say; none at all: all rows are of the past.

        ``tell`` takes what announces a job that was enqueued, and calls it elsewhere.
        """
        self._entries = entries
        self._worker = worker
        self._backend = backend
        self._database = database
        self._announce = tell
        self.digests = [entry.digest for entry in entries.values()]
        self.is_new = True  # nothing has been written yet
        self._since: datetime | None = None  # when this worker started, as the database has it
        self._put_at = monotonic()
        self._orphaned_at: float | None = None  # first seen, and in each try since
        self._later: dict[str, float] = {}  # name → when it is tried again
        self._told: dict[str, str] = {}  # name → the fault that was told

    @property
    def later(self) -> list[str]:
        """The names of those that could not be fired a moment ago."""
        now = monotonic()
        self._later = {name: at for name, at in self._later.items() if at > now}
        return list(self._later)

    def put(self) -> bool:
        """Write the entries down, unless that was just tried; return whether rows changed."""
        if monotonic() < self._put_at:
            return False
        inherit = self._may_inherit()
        self._put_at = monotonic() + PUT_AGAIN
        try:
            [(now,)] = self._database.fetch("clock", {})
            done = self._write(now, inherit=inherit)
        except (*REFUSED, *HARMLESS) as error:  # the other work of the sweeper goes on
            logger.error("the schedules cannot be written down: %s", brief(error))  # noqa: TRY400
            return False
        if self.is_new and done.since is not None:
            self.is_new = False
            self._tell_start(now)
        self._since = done.since
        self._note(done)
        return bool(done.put or done.gone)

    def _write(self, now: datetime, *, inherit: bool) -> Put:
        return put_schedules(
            list(self._entries.values()),
            now=now,
            worker=self._worker,
            since=self._since,
            inherit=inherit,
            backend=self._backend,
            database=self._database,
        )

    def _tell_start(self, now: datetime) -> None:
        """Say what this worker will fire, and when by its settings."""
        live = [entry for entry in self._entries.values() if entry.enabled]
        coming = sorted((entry.cron.after(now), entry.name) for entry in live)
        if coming:
            told = ", ".join(f"{name} at {at:%Y-%m-%d %H:%M} UTC" for at, name in coming[:TOLD])
            logger.info("fires %s schedules; next %s", len(coming), told)

    def _may_inherit(self) -> bool:
        """Tell whether a newer version has had no live worker for so long that it has gone.

        A database that was away makes every worker look dead: then the tries have a gap.
        """
        if monotonic() > self._put_at + 2 * PUT_AGAIN:
            self._orphaned_at = None
        return self._orphaned_at is not None and monotonic() > self._orphaned_at + INHERIT_AFTER

    def _note(self, done: Put) -> None:
        if not done.orphaned:
            self._orphaned_at = None
        elif self._orphaned_at is None:
            self._orphaned_at = monotonic()
        for name in done.put:
            entry = self._entries[name]
            logger.info("schedule %s: %s in %s", name, entry.schedule, entry.timezone)
        for name in done.gone:
            logger.info("schedule %s is no longer in the settings and stops", name)

    def fire(self) -> bool:
        """Fire what is due; return whether it made jobs."""
        found = due_schedules(
            self.digests, later=self.later, backend=self._backend, database=self._database
        )
        made = [self._fire(due) for due in found]  # all of them, not up to the first
        return any(made)

    def _fire(self, due: Due) -> bool:
        """Fire one; whatever is wrong with it, the others go on."""
        entry = self._entries[due.name]
        try:
            return self._enqueue(entry, due)
        except ScheduleFault as error:
            self._put_off(entry, str(error), logging.ERROR)
        except LockNotAvailable:
            self._put_off(entry, "a transaction holds its unique key", logging.WARNING)
        except (*REFUSED, *HARMLESS) as error:
            self._put_off(entry, brief(error), logging.ERROR)
        except Failure:
            raise
        except Exception:  # the others, and what else the sweeper does, go on
            logger.exception("schedule %s cannot be fired", entry.name)
            self._later[entry.name] = monotonic() + AGAIN
        return False

    def _enqueue(self, entry: CronEntry, due: Due) -> bool:
        task, new = scheduled_job(entry, backend=self._backend)
        what = firing(entry, due.next_at, due.now)
        placement = 0 if new.needs is None else place(new.needs, database=self._database)
        fired = fire(
            due, what, new, placement=placement, backend=self._backend, database=self._database
        )
        self._told.pop(entry.name, None)
        self._log(entry, fired)
        for made, _at in fired.jobs:
            self._announce(partial(announce, task, new, made, backend=self._backend))
        return bool(fired.jobs)

    def _log(self, entry: CronEntry, fired: Fired) -> None:
        for made, at in fired.jobs:
            logger.info("schedule %s: job %s for %s", entry.name, made.id, at)
        if fired.missed is not None:
            logger.info("schedule %s: no job for %s: %s", entry.name, fired.missed, fired.why)

    def _put_off(self, entry: CronEntry, fault: str, level: int) -> None:
        self._later[entry.name] = monotonic() + AGAIN
        if self._told.get(entry.name) != fault:
            self._told[entry.name] = fault
            logger.log(level, "schedule %s cannot be fired: %s", entry.name, fault)
