"""Write down that runs are over their timeout. Their leases go on: the runs may, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django_jobs.sql import Database, array


@dataclass(frozen=True, slots=True)
class Late:
    """A run whose time is over: its lease, its job, and what it may take, in seconds."""

    lease: int
    job: int
    timeout: float


def time_out(late: Sequence[Late], *, worker: UUID, database: Database) -> set[int]:
    """Mark the leases and tell it in the jobs' history, once; return the busy leases.

    A lease that is gone is passed over: how its run ends counts no more.
    """
    params = {
        "worker": worker,
        "leases": array(each.lease for each in late),
        "jobs": array(each.job for each in late),
        "timeouts": array(each.timeout for each in late),
    }
    return {lease for (lease,) in database.fetch("time_out", params)}
