"""The steps of one attempt: resolve, announce, call, judge."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from typing import Any

from django_jobs import logs, tracing
from django_jobs.compat import task_backends, task_started
from django_jobs.conf import Options
from django_jobs.exceptions import InvalidCall, JobCancelled, JobInterrupted, UnknownTask
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.results import running, running_job
from django_jobs.signals import send
from django_jobs.tasks import AnyTask, misfit, resolve
from django_jobs.worker import outcomes
from django_jobs.worker.context import JobContext
from django_jobs.worker.run import Run


class Abandoned(BaseException):
    """The job was handed back before its function was called."""


ASKED = (JobInterrupted, CancelledError)  # by which a run ends that was asked to
SINCE = (
    "The function has changed since the job was enqueued: let it take these arguments again, or "
    "enqueue another job in place of this one."
)


def begin(run: Run, *, alias: str) -> AnyTask | None:
    """Announce the run and return its task; None: unknown here, the outcome says so."""
    logs.JOB.set(run.job)
    try:
        task = resolve(run.job.task)
    except UnknownTask as error:
        run.outcome = outcomes.unknown(run.job, error)
        return None
    run.result = running(run.job, task, backend=alias)
    send(task_started, sender=type(task_backends[alias]), task_result=run.result)
    return task


def call(run: Run, task: AnyTask, *, is_lost: Callable[[Run], bool]) -> Any:
    """Call the task's function; a coroutine function returns its coroutine."""
    assert run.result is not None
    logs.JOB.set(run.job)  # a coroutine has another context than began it
    run.span = tracing.begin(run.job, run.job.trace)
    args = run.result.args
    if task.takes_context:
        context = JobContext(
            task_result=run.result,
            job=running_job(run.job, run.result),
            is_lost=lambda: is_lost(run),
            is_cancelled=lambda: run.asked,
            is_timed_out=lambda: run.timed_out,
            said=run.say,
        )
        args = [context, *args]
    run.begun = True  # before the look: a drain sets abandoned before it asks what has begun
    if run.abandoned:
        raise Abandoned
    if run.asked:
        raise JobCancelled
    run.start_clock()
    try:
        return task.func(*args, **run.result.kwargs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            _explain(error, task, run)  # the function was not entered
        raise


def _explain(error: TypeError, task: AnyTask, run: Run) -> None:
    """Raise what a call refused says, where it is the arguments that do not fit."""
    assert run.result is not None
    if (fault := misfit(task, run.result.args, run.result.kwargs)) is not None:
        raise InvalidCall(f"{fault} {SINCE}") from error


def over(run: Run, cause: BaseException | None) -> TimeoutError:
    """Return what a run has failed of that took too long, as its retry policy judges it."""
    error = TimeoutError(f"The run took longer than its timeout of {run.timeout:g} s.")
    error.__cause__ = cause
    return error


def judge(
    run: Run,
    task: AnyTask,
    value: Any,
    error: BaseException | None,
    *,
    options: Options,
) -> None:
    """Set the run's outcome from what the call returned or raised."""
    assert run.result is not None
    tracing.end(run.span, error)
    if error is None:
        run.outcome, run.error = outcomes.returned(run.job, value, options=options)
        if run.error is None:
            object.__setattr__(run.result, "_return_value", value)
    elif isinstance(error, Abandoned):  # its row was busy when the drain gave it back
        run.outcome = handed_back(lease=run.job.lease, job=run.job.id, reason="drain")
    elif run.asked and isinstance(error, ASKED):
        run.error = error
        run.outcome = outcomes.cancelled(run.job)
    else:
        if run.timed_out and isinstance(error, ASKED):
            error = over(run, error)
        run.error = error
        run.outcome = outcomes.raised(run.job, error, task, run.result, options=options)
