"""Enqueue what a schedule is due for: one statement moves its row on and makes the jobs.

Whoever dies before its commit has done nothing, after it all; of several workers one wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django_jobs.conf.cron import CronEntry
from django_jobs.operations.enqueue import COLUMNS, Enqueued, NewJob
from django_jobs.sql import Database, array, text_array


class Due(NamedTuple):
    """A schedule whose next occurrence has come, and the database's time."""

    id: int
    name: str
    digest: str
    next_at: datetime | None  # None: nobody has said yet when it comes
    now: datetime


@dataclass(frozen=True, slots=True)
class Fired:
    """What one firing brought: the jobs, each with its occurrence."""

    taken: bool  # False: another worker was first, or its row has changed
    jobs: list[tuple[Enqueued, datetime]]
    missed: datetime | None  # the newest occurrence that gets no job
    why: str | None  # late, overlap or unique


@dataclass(frozen=True, slots=True)
class Firing:
    """What is due of a schedule, and when it will be next."""

    occurrences: list[datetime]  # those that get a job, oldest first
    next_at: datetime
    missed: datetime | None  # the newest that comes too late for one


def firing(entry: CronEntry, due: datetime | None, now: datetime) -> Firing:
    """Return what is to be enqueued at ``now`` for an entry that was due at ``due``."""
    latest, next_at = entry.cron.latest(now), entry.cron.after(now)
    if due is None or due > latest:  # new, or moved by a hand: nothing has come
        return Firing([], next_at, None)
    found = _caught_up(entry, due, latest, now)
    missed = entry.cron.before(found[0]) if found else latest
    return Firing(found, next_at, missed if missed >= due else None)


def _caught_up(entry: CronEntry, due: datetime, latest: datetime, now: datetime) -> list[datetime]:
    if entry.catch_up == "skip":
        return [latest] if (now - latest).total_seconds() <= entry.grace else []
    if entry.catch_up == "run_once" or entry.overlap == "skip":
        return [latest]
    found = [latest]
    while len(found) < entry.catch_up_limit and found[-1] > due:  # backwards: a gap is long
        earlier = entry.cron.before(found[-1])
        if earlier < due:
            break
        found.append(earlier)
    return found[::-1]


def due_schedules(
    digests: Sequence[str], *, later: Sequence[str], backend: str, database: Database
) -> list[Due]:
    """Return the schedules that are due and of which this process has the version.

    ``later`` names those that it leaves alone for now.
    """
    params = {"backend": backend, "digests": list(digests), "later": list(later)}
    return [Due(*row) for row in database.fetch("due_schedules", params)]


def fire(
    due: Due, what: Firing, new: NewJob, *, placement: int, backend: str, database: Database
) -> Fired:
    """Make the jobs of one schedule; nothing is done when its row has changed meanwhile.

    A live job of the same unique key is left as it is, whatever the task's ``on_conflict``:
    the arguments of a schedule are always the same.
    """
    params = {name: getattr(new, name) for name in COLUMNS if name != "run_after"}
    rows = database.fetch(
        "fire",
        params
        | {
            "schedule": due.id,
            "due": due.next_at,
            "now": due.now,
            "digest": due.digest,
            "next": what.next_at,
            "missed": what.missed,
            "occurrences": text_array(at.isoformat() for at in what.occurrences),
            "unique_key": new.unique_key,
            "placement": placement,
            "backend": backend,
        },
    )
    if not rows:
        return Fired(taken=False, jobs=[], missed=None, why=None)
    missed, why = rows[0][:2]
    jobs = [(Enqueued(*row[2:6]), row[6]) for row in rows if row[2] is not None]
    return Fired(taken=True, jobs=jobs, missed=missed, why=why)


class Put(NamedTuple):
    """What became of the rows that said something else than a worker's settings."""

    since: datetime | None  # when the worker started; None: its own row is gone
    put: list[str]  # written now
    gone: list[str]  # no longer in the settings
    orphaned: bool  # some are of a version that no live worker has


def put_schedules(
    entries: Sequence[CronEntry],
    *,
    now: datetime,
    worker: UUID,
    since: datetime | None,
    inherit: bool,
    backend: str,
    database: Database,
) -> Put:
    """Write the entries of a worker's settings, unless a later worker has its own.

    A new one, an edited one and one that was switched off are next due after ``now``.
    ``since`` is what the first call has answered; ``inherit``: take over orphaned rows too.
    """
    next_ats = [entry.cron.after(now) if entry.enabled else None for entry in entries]
    columns = {
        "names": [entry.name for entry in entries],
        "tasks": [entry.task for entry in entries],
        "schedules": [entry.schedule for entry in entries],
        "timezones": [entry.timezone for entry in entries],
        "queues": text_array(entry.queue for entry in entries),
        "catch_ups": [entry.catch_up for entry in entries],
        "overlaps": [entry.overlap for entry in entries],
        "enabled": array(entry.enabled for entry in entries),
        "digests": [entry.digest for entry in entries],
        "next_ats": text_array(at.isoformat() if at else None for at in next_ats),
    }
    params = {"worker": worker, "since": since, "inherit": inherit, "backend": backend}
    [row] = database.fetch("put_schedules", params | columns)
    return Put(*row)
