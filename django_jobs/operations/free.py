"""Free or cancel jobs that waited for others which have ended."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.exceptions import UnknownParent
from django_jobs.operations.after_commit import of_transaction
from django_jobs.operations.announce import announce
from django_jobs.sql import Database, SiteDatabase, array
from django_jobs.states import JobState

logger = logging.getLogger("django_jobs.enqueue")

NEWEST, STRETCH = 200, 800  # waiting jobs that a look of the sweeper asks about
GONE = "no such job is under the alias {!r}; enqueue it before, and give its result or id."


class Freed(NamedTuple):
    """A job that waits no longer: ready, scheduled, or cancelled with its parent."""

    id: int
    backend: str
    state: str
    queue: str


def set_free(
    parents: Iterable[int] = (),
    *,
    children: Iterable[int] = (),
    worker: UUID | None = None,
    database: Database,
) -> list[Freed]:
    """Free who waited for ``parents`` alone, and cancel all whom a failed one dooms.

    ``children`` are looked at themselves, whoever their parents are. It is sent after the
    commit that ended a parent: then of two that end at once the later sees both. Sent again
    it changes nothing. The caller announces those that come back ``cancelled``.
    """
    params = {"parents": array(parents), "children": array(children), "worker": worker}
    return [Freed(*row[:4]) for row in database.fetch("dependants", params)]


def strays(*, after: int, database: Database) -> tuple[list[int], int]:
    """Return waiting jobs that nobody has freed, and where the next look goes on.

    A process that dies between the end of a job and the freeing leaves such. A look asks
    about the newest jobs, where an enqueue may have crossed the end of its parent, and
    about the next stretch of all others; so its price does not grow with their number.
    """
    params = {"after": after, "newest": NEWEST, "stretch": STRETCH}
    [(found, onwards)] = database.fetch("strays", params)
    return found, onwards


def require_parents(missing: Collection[int], *, backend: str) -> None:
    """Raise ``UnknownParent`` when jobs to wait for are not there."""
    if missing:
        raise UnknownParent(sorted(missing), GONE.format(backend))


class Look:
    """Looks once, after the commit, at all that a transaction has ended or tied."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        """Belong to the present transaction of ``connection``."""
        self.__qualname__ = "look"  # by this Django names a callback that failed
        self.parents: set[int] = set()
        self.children: set[int] = set()
        self._database = connection.alias

    def __call__(self) -> None:
        """Free and cancel, and announce the cancelled; a further call finds nothing left."""
        parents, self.parents = self.parents, set()
        children, self.children = self.children, set()
        if not parents and not children:
            return
        database = SiteDatabase(self._database)
        freed = set_free(sorted(parents), children=sorted(children), database=database)
        lost = [job for job in freed if job.state == JobState.CANCELLED]
        for backend in {job.backend for job in lost}:
            ids = [job.id for job in lost if job.backend == backend]
            announce(ids, backend=backend, database=self._database)


def free_on_commit(
    parents: Iterable[int] = (), *, children: Iterable[int] = (), database: str
) -> None:
    """Do as ``set_free`` when the caller's transaction commits, and announce the cancelled.

    It is one statement a transaction. Should it fail, what was done stays done, and the
    sweeper of some worker looks again.
    """
    connection = connections[database]
    look = of_transaction(connection, Look)
    look.parents.update(parents)
    look.children.update(children)
    if connection.in_atomic_block:
        transaction.on_commit(look, using=database, robust=True)
        return
    try:
        look()
    except Exception:  # the job is in the table: this must not look as if it were not
        logger.exception("could not look at the parents of jobs")
