"""Let scheduled jobs run before their time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django_jobs.operations.act import Actor, act, totals


@dataclass(frozen=True, slots=True)
class RunNow:
    """How many jobs became ready, and why others did not.

    A refusal is the state of a job that is not scheduled, ``not found`` or ``locked``.
    """

    count: int
    refused: dict[int, str]


def run_now(ids: Iterable[int], *, actor: Actor, reason: str = "", database: str) -> RunNow:
    """Make scheduled jobs ready at once; their attempts and their life go on.

    It does no more than their time would have done: what else a job waits for, a paused
    queue or a host that fits, it goes on waiting for. When it was due stays in its event.
    Batches and transactions are those of ``requeue``, and so is the bell.
    """
    batches = act("run_now", ids, actor=actor, reason=reason, database=database)
    return RunNow(*totals(batches, ring=database))
