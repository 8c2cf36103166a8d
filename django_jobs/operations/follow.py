"""What an end sets free: jobs that waited for its permit, or for the job itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from django_jobs.operations.free import Freed, set_free
from django_jobs.operations.settle import Settled
from django_jobs.sql import Database


def follow(
    answers: Sequence[Settled],
    *,
    worker: UUID,
    database: Database,
    own: str | None = None,
    woken: dict[int, str] | None = None,
) -> list[Freed]:
    """Wake what waited for what has been settled; it is sent after the settle's commit.

    So of two ends at once the later sees both. Should the process die before it, the
    sweeper of some worker does the same. Returns the jobs that waited for others and wait
    no longer; the caller announces those that are cancelled.

    ``woken`` takes each job of the alias ``own`` that has a place now, and its queue: the
    caller claims next, and rings for those that it does not get.
    """
    keys = {answer.limit_key for answer in answers if answer.limit_key is not None}
    if keys:
        for backend, queue, ids in _wake(keys, worker=worker, own=own, database=database):
            if woken is not None and backend == own:
                woken |= dict.fromkeys(ids, queue)
    parents = [answer.job for answer in answers if answer.has_children]
    return set_free(parents, worker=worker, database=database) if parents else []


def wake(keys: Collection[str], *, worker: UUID, database: Database) -> int:
    """Make as many blocked jobs of these keys ready as there is room; return how many."""
    return sum(len(ids) for *_, ids in _wake(keys, worker=worker, own=None, database=database))


def _wake(
    keys: Collection[str], *, worker: UUID, own: str | None, database: Database
) -> list[tuple[str, str, list[int]]]:
    params = {"keys": sorted(keys), "worker": worker, "own": own}
    return [(backend, queue, ids) for backend, queue, ids, _rang in database.fetch("wake", params)]
