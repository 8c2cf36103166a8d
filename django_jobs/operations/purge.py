"""Delete jobs that have ended, and their history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django_jobs.operations.act import Actor, act


@dataclass(frozen=True, slots=True)
class Purged:
    """How many jobs were deleted, and why others were not: see ``Requeued``."""

    count: int
    refused: dict[int, str]


def purge(ids: Iterable[int], *, actor: Actor, reason: str = "", database: str) -> Purged:
    """Delete jobs in a final state with their events; a live job is never touched.

    A job is judged again under its lock, so one that was requeued in the meantime stays.
    Batches and transactions are those of ``requeue``.
    """
    count = 0
    refused: dict[int, str] = {}
    for done in act("purge", ids, actor=actor, reason=reason, database=database):
        count += len(done.changed)
        refused |= done.refused
    return Purged(count, refused)
