"""One attempt in progress."""

from __future__ import annotations

from math import inf

from django_jobs.exceptions import JobCancelled, JobTimedOut
from django_jobs.operations.claim import Claimed
from django_jobs.operations.settle import Outcome
from django_jobs.tasks import JobResult
from django_jobs.worker.interrupt import Interrupt


class Run:
    """A claimed job from the claim until its outcome is committed."""

    __slots__ = (
        "abandoned",
        "asked",
        "began_at",
        "begun",
        "cancel",
        "error",
        "interrupt",
        "job",
        "lost",
        "outcome",
        "progress",
        "refused",
        "result",
        "settling",
        "stuck",
        "timed_out",
        "timeout",
    )

    def __init__(self, job: Claimed, *, timeout: float | None = None) -> None:
        """``timeout``: seconds that a run may take whose job does not say; None: any time."""
        own = timeout if job.timeout is None else job.timeout
        self.timeout = None if own == inf else own
        self.job = job
        self.result: JobResult | None = None  # what signals and the context see
        self.outcome: Outcome | None = None  # set once, by the run itself
        self.error: BaseException | None = None
        self.begun = False  # the task's function has been called
        self.lost = False  # its lease is gone: whatever it writes is void
        self.refused = False  # the database would not store its outcome
        self.abandoned = False  # handed back by a drain: nobody waits for its outcome
        self.asked = False  # an operator wants it to end
        self.began_at: float | None = None  # when the task's function was called, monotonic
        self.timed_out = False  # its time is over
        self.stuck = False  # and it has not ended in the time of grace
        self.settling = False  # it commits its outcome itself: until then its lease may be gone
        self.progress: str | None = None  # JSON text to be shown, not written yet
        self.cancel = _nothing  # ends a coroutine, kills a process
        self.interrupt = Interrupt()  # ends what runs in a thread, where that is possible

    def ask(self) -> None:
        """Let it end; callable from any thread, and what was asked before is asked once."""
        if not self.asked:
            self.asked = True  # first: one that has not begun sees it when it does
            self.cancel()
            self.interrupt.send(JobCancelled)

    def time_out(self) -> None:
        """Let it end, for its time is over; callable from any thread, and once is enough."""
        if not self.timed_out:
            self.timed_out = True  # first, as in ask()
            self.cancel()
            self.interrupt.send(JobTimedOut)

    @property
    def may_repeat(self) -> bool:
        """Whether the job may be run again although this run is cut off."""
        return self.job.idempotent or not self.begun


def _nothing() -> None:
    """Stand in for a run that cannot be cancelled."""
