"""Insert jobs in the caller's transaction, and ring for sleeping workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any, Literal

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.exceptions import AlreadyEnqueued
from django_jobs.operations.after_commit import of_transaction
from django_jobs.operations.announce import announce
from django_jobs.operations.free import free_on_commit, require_parents
from django_jobs.operations.place import columns_of
from django_jobs.placement import Needs
from django_jobs.sql import SiteDatabase, array

BATCH = 1000  # jobs per statement of enqueue_many
TRIES = 20  # of an enqueue whose key others win, each time anew


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
    timeout: float | None = None  # seconds of one run; infinite: none; None: its worker's
    expires_in: float | None = None  # seconds until it must have started
    limit_key: str | None = None
    limit_size: int | None = None
    limit_every: float | None = None
    limit_burst: int | None = None
    limit_discard: bool = False
    trace: str | None = None  # the span that enqueues it, as a traceparent
    needs: Needs | None = None  # of a host; None: any will do
    unique_key: str | None = None  # no two live jobs have the same
    on_conflict: Literal["return", "raise", "replace"] = "return"  # with the live job of the key
    parents: tuple[int, ...] = ()  # jobs that must end first
    after_failure: bool = False  # whatever way they end

    @property
    def is_tied(self) -> bool:
        """Whether it takes more than an insert."""
        return bool(self.needs or self.unique_key or self.parents)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A job that was inserted; it exists once the caller's transaction commits."""

    id: int
    state: str
    enqueued_at: datetime
    run_after: datetime | None
    created: bool = True  # False: it is the live job of the same key
    replaced: int | None = None  # the job that had to go for it


TIES = frozenset({"needs", "unique_key", "on_conflict", "parents", "after_failure"})
COLUMNS = tuple(field.name for field in fields(NewJob) if field.name not in TIES)
NUMBERS = frozenset(
    {
        "priority", "max_attempts", "keep_dead", "idempotent",
        "limit_size", "limit_every", "limit_burst", "limit_discard", "expires_in", "timeout",
    }
)  # fmt: skip
NOWHERE: dict[str, Any] = {"digest": None, "host": None, "labels": [], "resources": None}
PATHS = frozenset({"retry_on", "give_up_on"})


def enqueue(new: NewJob, *, backend: str, database: str) -> Enqueued:
    """Insert one job; one round trip, the bell included, in autocommit.

    When its key is taken, the answer is the live job of the key or ``AlreadyEnqueued``.
    """
    bell = _bell(database)
    params = {name: getattr(new, name) for name in COLUMNS} | bell | {"backend": backend}
    if new.is_tied:
        made = _tied(new, params, backend=backend, database=database)
    else:
        [row] = SiteDatabase(database).fetch("enqueue", params)
        made = Enqueued(*row[:4])
    if made.created and not bell["ring"]:
        ring_on_commit({new.queue}, backend=backend, database=database)
    if new.parents or made.replaced is not None:
        ended = [] if made.replaced is None else [made.replaced]
        children = [made.id] if new.parents else []
        free_on_commit(ended, children=children, database=database)
    if made.replaced is not None:
        tell = partial(announce, [made.replaced], backend=backend, database=database)
        transaction.on_commit(tell, using=database, robust=True)
    return made


def _tied(new: NewJob, params: dict[str, Any], *, backend: str, database: str) -> Enqueued:
    """Insert a job that asks for a host, has a key or has parents."""
    params |= NOWHERE if new.needs is None else columns_of(new.needs)
    params |= {
        "unique_key": new.unique_key,
        "replace": new.on_conflict == "replace",
        "parents": array(new.parents),
        "after_failure": new.after_failure,
    }
    for _ in range(TRIES):
        [row] = SiteDatabase(database).fetch("enqueue_tied", params)
        require_parents(set(new.parents) - set(row[6]), backend=backend)
        made = Enqueued(*row[:6])
        if not _has_lost(new, made):
            return made
    raise AlreadyEnqueued(new.unique_key or "", None)


def _has_lost(new: NewJob, made: Enqueued) -> bool:
    """Tell whether it is to be sent again: what it saw of the key was no longer true.

    Each statement sees what was committed before it, so the next one sees the winner, or
    finds the key free when the winner's transaction was rolled back.
    """
    if made.created:
        return False
    if not made.id:  # it saw nobody, and was not let in
        return True
    if new.on_conflict == "return":
        return False
    if new.on_conflict == "raise" or made.state == "running":
        raise AlreadyEnqueued(new.unique_key or "", made.id)
    return True


def enqueue_many(new: Sequence[NewJob], *, backend: str, database: str) -> list[Enqueued]:
    """Insert jobs, a statement per thousand, all or none; return them in order."""
    if any(job.unique_key is not None for job in new):
        return _unique(new, backend=backend, database=database)
    if len(new) <= BATCH:
        return _insert(new, backend=backend, database=database)
    with transaction.atomic(using=database):
        return _in_batches(new, backend=backend, database=database)


def _unique(new: Sequence[NewJob], *, backend: str, database: str) -> list[Enqueued]:
    """Insert in the order of the keys, so that two that share keys cannot deadlock.

    When one key was lost to a transaction that has committed since, all is taken back and
    sent again: to send that key alone would be out of its order.
    """
    _check_keys(new)
    order = sorted(range(len(new)), key=lambda place: new[place].unique_key or "")
    lost: list[NewJob] = []
    for _ in range(TRIES):
        with transaction.atomic(using=database):
            sent = [new[place] for place in order]
            made = _in_batches(sent, backend=backend, database=database)
            lost = [job for job, found in zip(sent, made, strict=True) if _has_lost(job, found)]
            if not lost:
                return [found for _, found in sorted(zip(order, made, strict=True), key=_place)]
            transaction.set_rollback(True, using=database)
    raise AlreadyEnqueued(lost[0].unique_key or "", None)


def _place(entry: tuple[int, Enqueued]) -> int:
    return entry[0]


def _check_keys(new: Sequence[NewJob]) -> None:
    """Refuse, before anything is sent, what could not be done all at once."""
    seen: set[str] = set()
    for place, job in enumerate(new):
        if job.unique_key is None:
            continue
        if job.on_conflict == "replace":
            raise ValueError(
                f"Item {place}: enqueue_many replaces no job; enqueue it apart, or make it "
                "with task.using(on_conflict='return').s(…)."
            )
        if job.on_conflict == "raise" and job.unique_key in seen:
            raise AlreadyEnqueued(job.unique_key, None)
        seen.add(job.unique_key)


def _in_batches(new: Sequence[NewJob], *, backend: str, database: str) -> list[Enqueued]:
    return [
        made
        for start in range(0, len(new), BATCH)
        for made in _insert(new[start : start + BATCH], backend=backend, database=database)
    ]


def _insert(new: Sequence[NewJob], *, backend: str, database: str) -> list[Enqueued]:
    if not new:
        return []
    bell = _bell(database)
    params: dict[str, Any] = {name: _column(new, name) for name in COLUMNS}
    params |= {"backend": backend, **bell, **_placements(new)}
    params["unique_key"] = [job.unique_key for job in new]
    params["parents"] = [" ".join(map(str, job.parents)) or None for job in new]
    params["after_failure"] = array(job.after_failure for job in new)
    rows = SiteDatabase(database).fetch("enqueue_many", params)
    require_parents(rows[0][5], backend=backend)
    if not bell["ring"]:
        ring_on_commit({job.queue for job in new}, backend=backend, database=database)
    children = [row[0] for job, row in zip(new, rows, strict=True) if job.parents and row[4]]
    if children:
        free_on_commit(children=children, database=database)
    return [Enqueued(*row[:5]) for row in rows]


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


def _bell(database: str) -> dict[str, bool]:
    """Tell whether the statement rings, and whether its commit may be long in coming.

    While that is awaited, others ring too.
    """
    connection = connections[database]
    return {"ring": not connection.in_atomic_block, "long": not connection.get_autocommit()}


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
    bell = of_transaction(connections[database], Bell)
    bell.queues.setdefault(backend, set()).update(queues)
    transaction.on_commit(bell, using=database, robust=True)


def ring(queues: set[str], *, backend: str, database: str) -> None:
    """Notify sleeping workers of these queues, if there are any."""
    SiteDatabase(database).fetch("ring", {"backend": backend, "queues": sorted(queues)})
