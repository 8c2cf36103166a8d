"""One attempt in progress."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import monotonic

from django_jobs.exceptions import JobCancelled, JobTimedOut
from django_jobs.operations.claim import Claimed
from django_jobs.operations.settle import Outcome
from django_jobs.tasks import JobResult
from django_jobs.tasks.context import Said
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
        "kill",
        "lost",
        "outcome",
        "progress",
        "refused",
        "result",
        "settling",
        "span",
        "stuck",
        "timed_out",
        "timeout",
        "written",
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
        self.progress: Said | None = None  # the latest that it said of itself
        self.written: Said | None = None  # and what of that its lease has
        self.span: object = None  # of a tracer, if there is one
        self.cancel = _nothing  # ends a coroutine, wakes the thread that watches a process
        self.kill: Callable[[], bool] = _gone  # ends a process; True: none is left
        self.interrupt = Interrupt()  # ends what runs in a thread, where that is possible

    def start_clock(self) -> None:
        """Count its timeout from now on."""
        self.began_at = monotonic()

    def say(self, said: Said) -> None:
        """Keep what is to be shown of it; called in the task, so without any lock.

        An exception sent to the task's thread may come between any two steps.
        """
        self.progress = said

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
    def can_be_ended(self) -> bool:
        """Whether asking is of use: once its function has ended, only if it can be killed.

        A process that is killed while it commits has committed, or has not.
        """
        return not self.settling or self.kill is not _gone

    @property
    def may_repeat(self) -> bool:
        """Whether the job may be run again although this run is cut off."""
        return self.job.idempotent or not self.begun


def _gone() -> bool:
    """Stand in for a run that has no process of its own."""
    return True


def _nothing() -> None:
    """Stand in for a run that cannot be cancelled."""
