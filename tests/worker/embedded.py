"""What tests ask of a worker that runs in their own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django_jobs.models import Job, Lease
from django_jobs.operations.rescue import Rescued, rescue
from tests.operations.desk import QUIET, desks, lapse
from tests.processes import wait_for


def row(result: Any) -> Job:
    """The job of an enqueue as it is now."""
    return Job.objects.get(pk=int(result.id))


def wait_for_state(result: Any, *states: str, seconds: float = 10) -> None:
    """Wait until a job is in one of ``states``."""
    wait_for(lambda: row(result).state in states, seconds=seconds, what=f"{states}")


def wait_for_ends(*results: Any, seconds: float = 10) -> list[str]:
    """Wait until jobs are final; return how they ended."""
    for result in results:
        wait_for(lambda result=result: row(result).finished_at, seconds=seconds, what=states())  # type: ignore[misc]
    return [row(result).state for result in results]


def states() -> str:
    """What a failing test shows."""
    return str(list(Job.objects.values_list("id", "task", "state", "attempt", "error")))


def rescued_later(result: Any) -> list[Rescued]:
    """Let the job's lease lapse, and rescue as another worker would."""
    lapse(Lease.objects.get(job_id=int(result.id)).pk)
    with desks("another") as [desk]:
        return rescue(quiet=QUIET, database=desk.database)


class Count:
    """Counts the calls of a method of one object, which does as before."""

    def __init__(self, owner: Any, name: str, *, where: Callable[..., bool] | None = None) -> None:
        self.calls = 0
        method = getattr(owner, name)

        def counted(*args: Any, **given: Any) -> Any:
            self.calls += where is None or where(*args)
            return method(*args, **given)

        setattr(owner, name, counted)

    def during(self, seconds: float) -> int:
        """Return how many calls there were in a span of time."""
        before, begun = self.calls, time.monotonic()
        wait_for(lambda: time.monotonic() - begun > seconds)
        return self.calls - before
