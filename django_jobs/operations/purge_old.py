"""Delete what has been over for longer than it is kept, a short batch at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import NamedTuple

from django_jobs.sql import Database, array, text_array

BATCH = 500  # rows; the locks of one batch are held for some milliseconds


STEP = timedelta(microseconds=1)  # between two times in PostgreSQL
MOST_PASSED = 10_000


class Place(NamedTuple):
    """How far a purge has come along the index, which orders by time alone."""

    at: datetime | None = None  # what ended before has been looked at
    passed: frozenset[int] = frozenset()  # and of what ended then, these

    def onwards(self, until: datetime | None, stayed: Collection[int]) -> Place:
        """Return where the next stretch begins; ``stayed``: of those that ended ``until``."""
        if until is None:
            return self
        passed = {*stayed, *(self.passed if until == self.at else ())}
        if len(passed) > MOST_PASSED:  # a statement must stay short
            return Place(until + STEP)
        return Place(until, frozenset(passed))


class Batch(NamedTuple):
    """What became of one stretch of old jobs."""

    gone: int
    held: int  # locked by us: the others are in somebody else's hands
    seen: int
    place: Place  # where the next begins


def due(
    ages: Mapping[str, float],
    *,
    places: Mapping[str, Place],
    events: float | None,
    backend: str,
    database: Database,
) -> list[str]:
    """Return of which states there are jobs to purge, and ``events`` if there are such.

    ``ages``: state → seconds; ``places``: state → up to where has been purged.
    """
    afters = [places.get(state, Place()).at for state in ages]
    params = {
        "states": text_array(ages),
        "ages": array(ages.values()),
        "afters": text_array(None if at is None else (at + STEP).isoformat() for at in afters),
        "events": events,
        "backend": backend,
    }
    return [row[0] for row in database.fetch("purge_due", params)]


def purge_old(
    state: str,
    *,
    age: float,
    place: Place = Place(),  # noqa: B008 - a value
    limit: int = BATCH,
    backend: str,
    transaction: AbstractContextManager[object],
    database: Database,
) -> Batch:
    """Purge of the ``limit`` oldest jobs in a final state from ``place`` on those that may go.

    One for which a live job waits stays, and one that anybody else has locked. Nobody is
    waited for. ``transaction`` is one of ``database``, at READ COMMITTED: the jobs are locked
    by a statement of its own, so that the next sees whoever was tied to them before.
    """
    params = {"state": state, "age": age, "limit": limit, "backend": backend}
    params |= {"after": place.at, "passed": array(sorted(place.passed))}
    with transaction:
        [(ids, seen, until, last)] = database.fetch("purge_old_lock", params)
        gone: list[int] = []
        if ids:
            [(gone,)] = database.fetch("purge_old", {"ids": array(ids)})
    return Batch(len(gone), len(ids), seen, place.onwards(until, {*last} - {*gone}))


def purge_events(*, age: float, limit: int = BATCH, database: Database) -> int:
    """Delete a batch of old events that belong to no job; return how many."""
    [(gone,)] = database.fetch("purge_events", {"age": age, "limit": limit})
    return int(gone)
