"""Insert jobs in the caller's transaction, and ring for sleeping workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.operations.place import columns_of
from django_jobs.placement import Needs
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
    needs: Needs | None = None  # of a host; None: any will do


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A job that was inserted; it exists once the caller's transaction commits."""

    id: int
    state: str
    enqueued_at: datetime
    run_after: datetime | None


COLUMNS = tuple(field.name for field in fields(NewJob) if field.name != "needs")
NUMBERS = frozenset({"priority", "max_attempts", "keep_dead", "idempotent"})
PATHS = frozenset({"retry_on", "give_up_on"})


def enqueue(new: NewJob, *, backend: str, database: str) -> Enqueued:
    """Insert one job; one round trip, the bell included, in autocommit."""
    connection = connections[database]
    ring = not connection.in_atomic_block
    params = {name: getattr(new, name) for name in COLUMNS}
    params |= {"backend": backend, "ring": ring}
    name = "enqueue"
    if new.needs is not None:
        name = "enqueue_placed"
        params |= columns_of(new.needs)
    [(pk, state, enqueued_at, run_after, _)] = SiteDatabase(database).fetch(name, params)
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
    params |= {"backend": backend, "ring": ring, **_placements(new)}
    rows = SiteDatabase(database).fetch("enqueue_many", params)
    if not ring:
        ring_on_commit({job.queue for job in new}, backend=backend, database=database)
    return [Enqueued(*row[:4]) for row in rows]


def _placements(new: Sequence[NewJob]) -> dict[str, Any]:
    """Return which placement each job asks for, and each of them once."""
    digests = [None if job.needs is None else job.needs.digest for job in new]
    asked = {job.needs.digest: job.needs for job in new if job.needs is not None}
    rows = [columns_of(needs) for needs in asked.values()]
    return {
        "digest": digests,
        "digests": [row["digest"] for row in rows],
        "hosts": [row["host"] for row in rows],
        "labels": [" ".join(row["labels"]) for row in rows],
        "resources": [row["resources"] for row in rows],
    }


def _column(new: Sequence[NewJob], name: str) -> Any:
    values = [getattr(job, name) for job in new]
    if name in PATHS:
        return [None if paths is None else " ".join(paths) for paths in values]
    return array(values) if name in NUMBERS else values


class Bell:
    """Rings once, after the commit, for all that a transaction has enqueued."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        """Belong to the present transaction of ``connection``."""
        self.__qualname__ = "ring"  # by this Django names a callback that failed
        self.queues: dict[str, set[str]] = {}  # by backend
        self._connection = connection

    def __call__(self) -> None:
        """Ring for what has been gathered; a further call finds nothing left."""
        while self.queues:
            backend, queues = self.queues.popitem()
            ring(queues, backend=backend, database=self._connection.alias)


def ring_on_commit(queues: set[str], *, backend: str, database: str) -> None:
    """Wake sleeping workers when the caller's transaction commits, by one statement.

    The callback is registered by each enqueue, for a savepoint may take some of them back;
    the first that is left rings for all. What a rolled-back savepoint enqueued may ring
    for nothing, which is harmless.
    """
    bell = _bell_of(connections[database])
    bell.queues.setdefault(backend, set()).update(queues)
    transaction.on_commit(bell, using=database, robust=True)


def _bell_of(connection: BaseDatabaseWrapper) -> Bell:
    """Return the bell of the present transaction.

    Django makes a new list of callbacks at each commit and rollback: the one that a bell
    was registered in tells whether it is still of this transaction.
    """
    registered: list[Any] = connection.run_on_commit
    known: tuple[list[Any], Bell] | None = connection.__dict__.get("_django_jobs_bell")
    if known is not None and known[0] is registered:
        return known[1]
    callbacks = (entry[1] for entry in registered)
    bell = next((found for found in callbacks if isinstance(found, Bell)), Bell(connection))
    connection.__dict__["_django_jobs_bell"] = registered, bell
    return bell


def ring(queues: set[str], *, backend: str, database: str) -> None:
    """Notify sleeping workers of these queues, if there are any."""
    SiteDatabase(database).fetch("ring", {"backend": backend, "queues": sorted(queues)})
