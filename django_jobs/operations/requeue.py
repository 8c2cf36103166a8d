"""Give jobs that have ended a new life."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django_jobs.operations.act import Actor, act
from django_jobs.operations.enqueue import ring_on_commit


@dataclass(frozen=True, slots=True)
class Requeued:
    """How many jobs were requeued, and why others were not.

    A refusal is the state of a live job, ``not found``, ``locked`` (somebody else was
    changing it) or ``too many lives``.
    """

    count: int
    refused: dict[int, str]


def requeue(ids: Iterable[int], *, actor: Actor, reason: str = "", database: str) -> Requeued:
    """Make jobs in a final state ready again: attempt 0, a new life, their history kept.

    Nothing waits for a lock, so of two operators each job obeys one. A job that has ended
    holds no lease: what a worker still believes about its last run is refused by the fence.
    In autocommit every thousand jobs are a transaction of their own; in a caller's
    transaction, which ATOMIC_REQUESTS makes, all of them commit with it. Workers that
    sleep are woken after the commit.
    """
    count = 0
    refused: dict[int, str] = {}
    for done in act("requeue", ids, actor=actor, reason=reason, database=database):
        count += len(done.changed)
        refused |= done.refused
        for backend, queues in done.queues.items():
            ring_on_commit(queues, backend=backend, database=database)
    return Requeued(count, refused)
