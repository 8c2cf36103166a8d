"""One attempt in progress."""

from __future__ import annotations

from django_jobs.operations.claim import Claimed
from django_jobs.operations.settle import Outcome
from django_jobs.tasks import JobResult


class Run:
    """A claimed job from the claim until its outcome is committed."""

    __slots__ = (
        "abandoned",
        "begun",
        "cancel",
        "error",
        "job",
        "lost",
        "outcome",
        "refused",
        "result",
    )

    def __init__(self, job: Claimed) -> None:
        """Begin with nothing known of how it will end."""
        self.job = job
        self.result: JobResult | None = None  # what signals and the context see
        self.outcome: Outcome | None = None  # set once, by the run itself
        self.error: BaseException | None = None
        self.begun = False  # the task's function has been called
        self.lost = False  # its lease is gone: whatever it writes is void
        self.refused = False  # the database would not store its outcome
        self.abandoned = False  # handed back by a drain: nobody waits for its outcome
        self.cancel = _nothing  # ends a coroutine; a thread can only be told

    @property
    def may_repeat(self) -> bool:
        """Whether the job may be run again although this run is cut off."""
        return self.job.idempotent or not self.begun


def _nothing() -> None:
    """Stand in for a run that cannot be cancelled."""
