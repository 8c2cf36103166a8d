"""Write how runs ended. The lease is the fence: without it nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django_jobs.sql import Database, array, text_array
from django_jobs.states import TRANSITIONS, JobState

ENDINGS = TRANSITIONS[JobState.RUNNING]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one run ended, ready to be written.

    ``refund`` 1 gives the attempt back. ``delay`` (seconds from the database's now) or
    ``run_after`` goes with the state ``scheduled``. ``kind`` and ``data`` (JSON text) are
    the event to write, if any. ``placement`` is where a job goes whose task is unknown here.
    """

    lease: int
    job: int
    state: str
    delay: float | None = None
    run_after: datetime | None = None
    refund: int = 0
    result: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    kind: str | None = None
    data: str | None = None
    placement: int | None = None  # to which the job moves; None: it stays

    def __post_init__(self) -> None:
        """Refuse a state that does not follow ``running``: the statement would write it."""
        if self.state not in ENDINGS:
            msg = f"No run ends as {self.state}."
            raise ValueError(msg)


class Answer(StrEnum):
    """What became of an outcome."""

    SETTLED = "settled"
    REPEATED = "repeated"  # it had been settled before; the answer was lost
    BUSY = "busy"  # another transaction holds the row: again next pass
    LOST = "lost"  # the lease is gone: the outcome is void


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer for one lease; ``finished_at`` when the job is final."""

    lease: int
    answer: Answer
    finished_at: datetime | None
    state: str | None = None  # which a cancel that was asked for may have changed
    limit_key: str | None = None  # whose permit came back
    has_children: bool = False  # jobs that wait for it, and it is final
    job: int = field(default=0, compare=False)


def settle(outcomes: Sequence[Outcome], *, worker: UUID, database: Database) -> list[Settled]:
    """Release the leases and set the states, in one statement; answer for each."""
    rows = database.fetch(
        "settle",
        {
            "worker": worker,
            "leases": array(outcome.lease for outcome in outcomes),
            "jobs": array(outcome.job for outcome in outcomes),
            "states": text_array(outcome.state for outcome in outcomes),
            "delays": array(outcome.delay for outcome in outcomes),
            "run_afters": text_array(_iso(outcome.run_after) for outcome in outcomes),
            "refunds": array(outcome.refund for outcome in outcomes),
            "results": text_array(outcome.result for outcome in outcomes),
            "errors": text_array(outcome.error for outcome in outcomes),
            "fingerprints": text_array(outcome.fingerprint for outcome in outcomes),
            "kinds": text_array(outcome.kind for outcome in outcomes),
            "datas": text_array(outcome.data for outcome in outcomes),
            "placements": array(outcome.placement for outcome in outcomes),
        },
    )
    jobs = {outcome.lease: outcome.job for outcome in outcomes}
    return [
        Settled(lease, Answer(answer), at, state, key, has_children, jobs[lease])
        for lease, answer, at, state, key, has_children in rows
    ]


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
