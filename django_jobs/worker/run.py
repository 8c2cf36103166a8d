"""One attempt in progress."""

from __future__ import annotations

from django_jobs.operations.claim import Claimed
from django_jobs.operations.settle import Outcome
from django_jobs.tasks import JobResult
from django_jobs.worker.interrupt import Interrupt


class Run:
    """A claimed job from the claim until its outcome is committed."""

    __slots__ = (
        "abandoned",
        "asked",
        "begun",
        "cancel",
        "error",
        "interrupt",
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
        self.asked = False  # an operator wants it to end
        self.cancel = _nothing  # ends a coroutine
        self.interrupt = Interrupt()  # ends what runs in a thread, where that is possible

    def ask(self) -> None:
        """Let it end; callable from any thread, and what was asked before is asked once."""
        if not self.asked:
            self.asked = True  # first: one that has not begun sees it when it does
            self.cancel()
            self.interrupt.send()

    @property
    def may_repeat(self) -> bool:
        """Whether the job may be run again although this run is cut off."""
        return self.job.idempotent or not self.begun


def _nothing() -> None:
    """Stand in for a run that cannot be cancelled."""
