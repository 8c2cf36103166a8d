"""What can go wrong, and what a task may raise to steer its own job.

DjangoJobsError
├── InvalidPayload      arguments or a result that JSON cannot say
├── InvalidCall         arguments that the task's function does not take
├── InvalidRequires     requirements that no worker could meet
├── InvalidLimit        a limit, or a key of one, that cannot be obeyed
├── AlreadyEnqueued     a live job has the unique key of the one to be enqueued
├── UnknownParent       a job to depend on that is not there
├── UnknownTask         no task of that name can be imported here
├── DatabaseRefused     this database cannot hold jobs
├── ProcessDied         a run whose own process ended before it did
├── WorkerLost          an attempt whose worker stopped renewing its lease
└── Refused             an operator's act that this job does not allow
RunControl              what a task raises to steer its job; not errors
├── RetryJob
├── SnoozeJob
└── CancelJob
JobInterrupted          raised in the thread of a run that shall end; not errors
├── JobCancelled        an operator has asked for it
└── JobTimedOut         its time is over
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import isfinite
from typing import TypeGuard

LONGEST = timedelta(days=36_500)


class DjangoJobsError(Exception):
    """Base class of the errors that django_jobs raises."""


class InvalidPayload(DjangoJobsError, TypeError, ValueError):
    """A value that JSON cannot say; the message names the path to it."""


class InvalidCall(DjangoJobsError, TypeError):
    """Arguments that the task's function does not take; the message names both."""


class InvalidRequires(DjangoJobsError, TypeError, ValueError):
    """A host, label or amount that cannot be asked for or offered."""

    def __init__(self, where: str, value: object, cure: str) -> None:
        """``where`` is the argument or flag as it is written, ``cure`` an imperative."""
        self.where = where
        self.value = value
        self.cure = cure
        super().__init__(f"{where} is {value!r:.120}. {cure}")


class InvalidLimit(DjangoJobsError, TypeError, ValueError):
    """A limit or key that cannot be obeyed; the message says why."""


class AlreadyEnqueued(DjangoJobsError):
    """Nothing was enqueued, for a live job has the same unique key."""

    def __init__(self, key: str, job: int | None) -> None:
        """``job`` is the id of that job; None: it was not there long enough to be known."""
        self.key = key
        self.job = None if job is None else str(job)
        who = "other jobs, one after the other" if job is None else f"the live job {job}"
        super().__init__(f"The unique key {key!r} is taken by {who}; nothing was enqueued.")


class Refused(DjangoJobsError):
    """An operator's act that cannot be done; the message says why and what to do."""


class UnknownParent(DjangoJobsError, LookupError, ValueError):
    """Nothing was enqueued, for a job that it should wait for is not there."""

    def __init__(self, parents: Sequence[object], why: str) -> None:
        """``parents`` are what was given for them, ``why`` a clause and the cure."""
        self.parents = tuple(parents)
        named = ", ".join(f"{parent!r:.60}" for parent in self.parents[:5])
        rest = f" and {len(self.parents) - 5} more" if len(self.parents) > 5 else ""  # noqa: PLR2004
        super().__init__(f"depends_on names {named}{rest}: {why}")


class UnknownTask(DjangoJobsError):
    """No task can be found under a path."""

    def __init__(self, path: str, reason: str = "nothing of that name is a task") -> None:
        """``path`` is the dotted path of the job's row, ``reason`` one clause."""
        self.path = path
        self.reason = reason
        super().__init__(f"No task is known as {path[:200]!r} here: {reason}.")


class DatabaseRefused(DjangoJobsError):
    """The database cannot hold jobs; the message says why and what to do."""


class WorkerLost(DjangoJobsError):
    """The attempt's lease lapsed: its worker died, hung or lost the database."""


class ProcessDied(DjangoJobsError):
    """The process of a run ended by itself, or was killed by somebody else."""


class RunControl(Exception):
    """Base class of what a task may raise to steer its own job."""


class RetryJob(RunControl):
    """Ask for another attempt; on the last attempt the job dies instead."""

    def __init__(self, after: float | timedelta | None = None) -> None:
        """``after``: seconds or a timedelta until then; None: the task's backoff."""
        if after is not None and not isinstance(after, timedelta) and not _is_seconds(after):
            raise TypeError(f"after={after!r:.120} must be seconds, a timedelta or None")
        self.after = after.total_seconds() if isinstance(after, timedelta) else after
        super().__init__("retry asked for by the task")


class SnoozeJob(RunControl):
    """Run the job again later without using up an attempt."""

    def __init__(self, until: datetime | timedelta | float) -> None:
        """``until``: an aware datetime, or a timedelta or seconds from now."""
        if _is_seconds(until):
            until = timedelta(seconds=min(max(until, 0), LONGEST.total_seconds()))
        if not isinstance(until, (datetime, timedelta)):
            raise TypeError(f"until={until!r:.120} must be a datetime, a timedelta or seconds")
        self.until = min(until, LONGEST) if isinstance(until, timedelta) else until
        super().__init__("snoozed by the task")


class CancelJob(RunControl):
    """End the job as cancelled."""

    def __init__(self, reason: str = "") -> None:
        """``reason`` is shown to the operator."""
        if not isinstance(reason, str):
            raise TypeError(f"reason={reason!r:.120} must be text; pass str(…)")
        self.reason = reason
        super().__init__(reason or "cancelled by the task")


class JobInterrupted(BaseException):
    """The run in whose thread this is raised shall end.

    Like ``asyncio.CancelledError``, which a coroutine gets, it is no ``Exception``: code
    that goes on after any error must not go on after this.
    """


class JobCancelled(JobInterrupted):
    """An operator has cancelled the job."""


class JobTimedOut(JobInterrupted):
    """The run has taken as long as it may."""


def _is_seconds(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
