"""Write a run's success in the transaction of the run itself, as its last statement."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from django_jobs.operations.settle import Outcome
from django_jobs.sql import Database


class Own(NamedTuple):
    """What became of it."""

    done: bool  # else nothing was written
    same: bool  # the transaction is the one that was begun


def begin_own(database: Database) -> str:
    """Make a transaction READ COMMITTED, before anything else in it; return its mark.

    At another level the statement that settles would fail where it has to wait, and see a
    lease that is gone. The site may have chosen one for its connections or its role.
    """
    database.fetch("read_committed", {})
    [(began,)] = database.fetch("transaction_began", {})
    return str(began)


def settle_own(outcome: Outcome, *, began: str, worker: UUID, database: Database) -> Own:
    """Release the lease and end the job, in the transaction with the mark ``began``.

    The permit stays taken and nobody is woken: the loop's own settle, which finds this one
    repeated, does both after the commit.
    """
    params = {
        "lease": outcome.lease,
        "job": outcome.job,
        "result": outcome.result,
        "worker": worker,
        "began": began,
    }
    [row] = database.fetch("settle_own", params)
    return Own(*row)
