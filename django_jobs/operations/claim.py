"""Take ready jobs under leases: one statement, whatever the number of queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django_jobs.planner import Lane
from django_jobs.sql import Database, array

HEAD = 8  # columns of the claim itself; those of a job follow


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job under a lease: what a run needs to know."""

    lease: int
    id: int
    task: str
    queue: str
    priority: int
    placement: int
    suspect: bool
    alone: bool  # one of those of which a pass takes one
    args: str
    kwargs: str
    metadata: str | None
    run_after: datetime | None
    attempt: int
    max_attempts: int
    life: int
    backoff: str
    backoff_base: float
    backoff_cap: float
    backoff_jitter: float
    retry_on: list[str] | None
    give_up_on: list[str] | None
    keep_dead: bool
    idempotent: bool
    timeout: float | None  # seconds; infinite: none; None: as its worker says
    trace: str | None  # the span that enqueued it, as a traceparent
    worker_ids: list[str]
    enqueued_at: datetime
    started_at: datetime
    last_attempted_at: datetime
    errors: list[str] | None


class Other(NamedTuple):
    """A job that was dealt and may not run now: blocked, scheduled, expired or cancelled."""

    state: str
    id: int
    task: str
    queue: str


@dataclass(frozen=True, slots=True)
class Pass:
    """What one claim brought."""

    known: bool  # False: this worker's epoch is old or its row is gone
    seen: int  # ready jobs looked at
    lost: list[str]  # the queue of each card dealt whose job another worker took first
    clock: int | None  # the latest card dealt
    placements: tuple[int, int]  # how many there are and the sum of their ids: any change shows
    firsts: list[list[int]]  # of each lane with jobs: turn, placement, suspect, -priority, id
    took: float  # seconds of the server until it had looked
    jobs: list[Claimed]
    others: list[Other] = field(default_factory=list)

    @property
    def cards(self) -> Counter[str]:
        """How many cards each queue was dealt.

        One that was lost counts too: else a queue whose only job stays locked would be the
        first again in every pass, and at room 1 no other queue would have its turn.
        """
        queues = [*(job.queue for job in self.jobs), *(job.queue for job in self.others)]
        return Counter(self.lost) + Counter(queues)


def claim(
    lanes: Sequence[Lane],
    *,
    room: int,
    worker: UUID,
    epoch: int,
    backend: str,
    lease_seconds: float,
    database: Database,
) -> Pass:
    """Claim up to ``room`` jobs from ``lanes`` in the planner's order.

    Never more than ``room``, and never a queue beyond its slots. ``room`` must be what
    the cap leaves after all leases that this worker holds.
    """
    rows = database.fetch(
        "claim",
        {
            "worker": worker,
            "epoch": epoch,
            "backend": backend,
            "room": room,
            "lease": float(lease_seconds),
            "queues": [lane.queue for lane in lanes],
            "placements": array(lane.placement for lane in lanes),
            "suspects": array(lane.suspect for lane in lanes),
            "alones": array(lane.alone for lane in lanes),
            "slots": array(lane.slots for lane in lanes),
            "held": array(lane.held for lane in lanes),
            "served": array(lane.served for lane in lanes),
            "costs": array(lane.cost for lane in lanes),
            "turns": array(lane.turn for lane in lanes),
            "floor_orders": array(lane.floor[0] for lane in lanes),
            "floor_ids": array(lane.floor[1] for lane in lanes),
        },
    )
    known, seen, lost, clock, placements, placement_sum, firsts, took = rows[0][:HEAD]
    jobs = [Claimed(*row[HEAD:-1]) for row in rows if row[HEAD] is not None]
    others = [
        Other(row[-1], *row[HEAD + 1 : HEAD + 4])
        for row in rows
        if row[HEAD] is None and row[HEAD + 1] is not None
    ]
    return Pass(
        known=known,
        seen=seen,
        lost=lost or [],
        clock=clock,
        placements=(placements, int(placement_sum)),
        firsts=firsts or [],
        took=took,
        jobs=jobs,
        others=others,
    )
