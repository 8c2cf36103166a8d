"""Insert jobs in the caller's transaction, and ring for sleeping workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.sql import SiteDatabase, array

BATCH = 1000  # jobs per statement of enqueue_many


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What is written for one job; arguments are JSON text, delays seconds."""

    task: str
    queue: str
    priority: int
    args: str
    kwargs: str
    metadata: str | None
    run_after: datetime | None
    delay: float | None
    max_attempts: int
    backoff: str
    backoff_base: float
    backoff_cap: float
    backoff_jitter: float
    retry_on: list[str] | None
    give_up_on: list[str] | None
    keep_dead: bool
    idempotent: bool


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A job that was inserted; it exists once the caller's transaction commits."""

    id: int
    state: str
    enqueued_at: datetime
    run_after: datetime | None


COLUMNS = tuple(field.name for field in fields(NewJob))
NUMBERS = frozenset({"priority", "max_attempts", "keep_dead", "idempotent"})
PATHS = frozenset({"retry_on", "give_up_on"})


def enqueue(new: NewJob, *, backend: str, database: str) -> Enqueued:
    """Insert one job; one round trip, the bell included, in autocommit."""
    connection = connections[database]
    ring = not connection.in_atomic_block
    params = {name: getattr(new, name) for name in COLUMNS}
    params |= {"backend": backend, "ring": ring}
    [(pk, state, enqueued_at, run_after, _)] = SiteDatabase(database).fetch("enqueue", params)
    if not ring:
        ring_on_commit({new.queue}, backend=backend, database=database)
    return Enqueued(pk, state, enqueued_at, run_after)


def enqueue_many(new: Sequence[NewJob], *, backend: str, database: str) -> list[Enqueued]:
    """Insert jobs, a statement per thousand, all or none; return them in order."""
    if len(new) <= BATCH:
        return _insert(new, backend=backend, database=database)
    with transaction.atomic(using=database):
        return [
            made
            for start in range(0, len(new), BATCH)
            for made in _insert(new[start : start + BATCH], backend=backend, database=database)
        ]


def _insert(new: Sequence[NewJob], *, backend: str, database: str) -> list[Enqueued]:
    if not new:
        return []
    ring = not connections[database].in_atomic_block
    params: dict[str, Any] = {name: _column(new, name) for name in COLUMNS}
    params |= {"backend": backend, "ring": ring}
    rows = SiteDatabase(database).fetch("enqueue_many", params)
    if not ring:
        ring_on_commit({job.queue for job in new}, backend=backend, database=database)
    return [Enqueued(*row[:4]) for row in rows]


def _column(new: Sequence[NewJob], name: str) -> Any:
    values = [getattr(job, name) for job in new]
    if name in PATHS:
        return [None if paths is None else " ".join(paths) for paths in values]
    return array(values) if name in NUMBERS else values


def ring_on_commit(queues: set[str], *, backend: str, database: str) -> None:
    """Wake sleeping workers when the caller's transaction commits, by one statement.

    The bells of a transaction are gathered; the first callback rings for all. What a
    rolled-back savepoint left in the collection rings once for nothing, which is harmless.
    """
    connection = connections[database]
    _bells(connection).setdefault(backend, set()).update(queues)

    def ring_for_all() -> None:  # a partial has no name for Django to log when it fails
        _ring(connection)

    transaction.on_commit(ring_for_all, using=database, robust=True)


def _bells(connection: BaseDatabaseWrapper) -> dict[str, set[str]]:
    bells: dict[str, set[str]] = connection.__dict__.setdefault("_django_jobs_bells", {})
    return bells


def _ring(connection: BaseDatabaseWrapper) -> None:
    bells = _bells(connection)
    while bells:
        backend, queues = bells.popitem()
        ring(queues, backend=backend, database=connection.alias)


def ring(queues: set[str], *, backend: str, database: str) -> None:
    """Notify sleeping workers of these queues, if there are any."""
    SiteDatabase(database).fetch("ring", {"backend": backend, "queues": sorted(queues)})
