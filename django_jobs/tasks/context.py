"""What a running task may see, and say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any

from django_jobs.tasks.result import AnyContext, JobResult

Said = tuple[float, float | None, str]  # done, total, message
MESSAGE_CHARS = 200
NUMBERS = (int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """The job that a task is called for, as it was claimed; no statement is needed for it."""

    id: str  # as in its TaskResult
    task: str  # dotted path
    queue: str
    priority: int
    attempt: int  # from 1; a requeue begins anew
    max_attempts: int
    enqueued_at: datetime
    worker: str  # the id of the worker that runs it, the last of its worker_ids
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(AnyContext):  # type: ignore[misc]  # frozen as Django's own is
    """Django's task context, the job, whether the run shall go on, and its progress."""

    job: RunningJob
    is_lost: Callable[[], bool]
    is_cancelled: Callable[[], bool]
    is_timed_out: Callable[[], bool]
    said: Callable[[Said], None]

    @property
    def lease_lost(self) -> bool:
        """True when another worker may run this job: stop, nothing written counts."""
        return self.is_lost()

    @property
    def cancelled(self) -> bool:
        """True when somebody has cancelled this job: end as soon as it is convenient."""
        return self.is_cancelled()

    @property
    def timed_out(self) -> bool:
        """True when this run has taken longer than its timeout: end now, as well as may be."""
        return self.is_timed_out()

    @property
    def metadata(self) -> dict[str, Any]:
        """What was given as metadata at the enqueue."""
        result = self.task_result
        return result.metadata if isinstance(result, JobResult) else {}

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the task is, ``done`` of ``total``; it is shown in the admin.

        It returns at once, from any thread or coroutine: the worker writes the latest word
        every few seconds. ``done`` may pass a ``total`` that was guessed too low.
        """
        if not isinstance(message, str):
            raise TypeError(f"progress(): message={message!r} must be text")
        _check(done, "done")
        if total is not None:
            _check(total, "total")
            if total <= 0:
                raise ValueError(f"progress(): total={total!r} must be above 0; None: unknown")
        if done < 0:
            raise ValueError(f"progress(): done={done!r} must not be below 0")
        self.said((done, total, message[:MESSAGE_CHARS]))


def _check(value: object, name: str) -> None:
    """Raise what says why ``value`` is no number that can be shown."""
    if not isinstance(value, NUMBERS) or isinstance(value, bool):
        raise TypeError(f"progress(): {name}={value!r} must be an int or a float")
    try:
        if isfinite(value):
            return
    except OverflowError:
        pass
    raise ValueError(f"progress(): {name} must be finite, and within what a float can hold")
