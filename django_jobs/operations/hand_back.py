"""Return a claimed job: it is ready again and its attempt is not burned."""

from __future__ import annotations

import json

from django_jobs.operations.settle import Outcome


def handed_back(*, lease: int, job: int, reason: str) -> Outcome:
    """Return the outcome that gives a job back, for settle()."""
    return Outcome(
        lease=lease,
        job=job,
        state="ready",
        refund=1,
        kind="handed_back",
        data=json.dumps({"reason": reason}),
    )
