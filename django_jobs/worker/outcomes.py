"""From how a run ended to what is written."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from math import isnan
from random import random
from typing import Any, TypedDict, cast

from django.utils import timezone

from django_jobs import payloads
from django_jobs.conf import Options
from django_jobs.exceptions import CancelJob, InvalidPayload, SnoozeJob, UnknownTask
from django_jobs.fingerprint import fingerprint
from django_jobs.operations.claim import Claimed
from django_jobs.operations.settle import Outcome
from django_jobs.retries import MAX_SECONDS, Backoff, Die, decide
from django_jobs.states import FINAL
from django_jobs.tasks import JobResult
from django_jobs.tasks.faults import YEARS
from django_jobs.tracebacks import describe

logger = logging.getLogger("django_jobs.worker")

GONE_SECONDS = 1.0  # by when a process is gone that leaves at once
UNKNOWN_TASK_DELAY = 30.0  # seconds until another worker, or a newer deploy, is asked


class Story(TypedDict):
    """What went wrong, as columns of an outcome."""

    error: str
    fingerprint: str
    data: str


def returned(
    job: Claimed, value: Any, *, options: Options
) -> tuple[Outcome, BaseException | None]:
    """Return the outcome of a run that returned ``value``.

    A value that JSON cannot say ends the job as dead: its effects have happened, so it is
    not run again.
    """
    try:
        text = payloads.dumps(
            value,
            where="result",
            limit=options.max_result_bytes,
            setting="max_result_bytes",
        )
    except InvalidPayload as error:
        error.__traceback__ = None  # its frames are of the check, not of the task
        return _died(job, error, "bad_result", options=options), error
    return Outcome(lease=job.lease, job=job.id, state="succeeded", result=text), None


def raised(
    job: Claimed,
    error: BaseException,
    task: Any,
    result: JobResult,
    *,
    options: Options,
) -> Outcome:
    """Return the outcome of a run that raised ``error``."""
    if isinstance(error, SnoozeJob):
        return _snoozed(job, error)
    if isinstance(error, CancelJob):
        return _ended(job, "cancelled", {"reason": error.reason[:500], "by": "task"})
    step = decide(
        error,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        retry_on=job.retry_on,
        give_up_on=job.give_up_on or (),
    )
    if isinstance(step, Die):
        return _died(job, error, step.reason, options=options)
    delay = step.after if step.after is not None else _delay(job, error, task, result)
    if delay is None:
        return _died(job, error, "gave_up", options=options)
    return _failed(job, error, delay, options=options)


def cut_off(
    job: Claimed,
    error: BaseException,
    task: Any,
    result: JobResult,
    *,
    options: Options,
) -> Outcome:
    """Return the outcome of a run that was ended from outside: how much it has done is unknown.

    ``error`` is a TimeoutError when its time was over, else its process died.
    """
    if job.idempotent:
        return raised(job, error, task, result, options=options)
    if isinstance(error, TimeoutError):
        return _died(job, error, "timed_out", options=options)
    return _died(job, error, "process_died", options=options)


def unended(
    job: Claimed,
    error: TimeoutError,
    task: Any,
    result: JobResult,
    *,
    options: Options,
) -> Outcome:
    """Return the outcome of a run that is late and still lives when its worker ends.

    Another attempt must find its thread gone.
    """
    outcome = cut_off(job, error, task, result, options=options)
    if outcome.state in FINAL:
        return outcome
    return replace(outcome, state="scheduled", delay=max(outcome.delay or 0.0, GONE_SECONDS))


def cancelled(job: Claimed) -> Outcome:
    """Return the outcome of a run that ended because an operator had asked for it."""
    return _ended(job, "cancelled", {"by": "operator"})


def unknown(job: Claimed, error: UnknownTask) -> Outcome:
    """Return the outcome of a job whose task this process does not know."""
    return Outcome(
        lease=job.lease,
        job=job.id,
        state="scheduled",
        delay=UNKNOWN_TASK_DELAY,
        refund=1,
        kind="unknown_task",
        data=json.dumps({"task": job.task[:500], "reason": error.reason[:500]}),
    )


def unwritable(job: Claimed, error: BaseException, *, options: Options) -> Outcome:
    """Return the outcome that replaces one which the database refuses to store."""
    return _died(job, error, "unwritable", options=options)


def broken(job: Claimed, fault: BaseException, *, begun: bool, options: Options) -> Outcome:
    """Return the outcome of a run that a fault around the task has ended.

    Before the task began another attempt may do; after it nobody knows what it did.
    """
    if begun:
        return _died(job, fault, "unwritable", options=options)
    if job.attempt >= job.max_attempts:
        return _died(job, fault, "attempts", options=options)
    return _failed(job, fault, _policy_delay(job), options=options)


def _policy_delay(job: Claimed) -> float:
    policy = Backoff(
        cast("Any", job.backoff), job.backoff_base, job.backoff_cap, job.backoff_jitter
    )
    return policy.delay(job.attempt, random=random())  # noqa: S311 - jitter, not a secret


def _delay(job: Claimed, error: BaseException, task: Any, result: JobResult) -> float | None:
    """Return the seconds until the next attempt; None when the task's own rule gives up."""
    own: Callable[..., float | timedelta | None] | None = getattr(task, "backoff", None)
    if callable(own):
        try:
            pause = own(error, result)
            return None if pause is None else _bounded(pause)
        except Exception:  # the user's rule is broken: the numbers on the row stand in for it
            logger.exception("backoff of %s failed; the default is used", job.task)
    return _policy_delay(job)


def _bounded(pause: float | timedelta) -> float:
    """Return seconds within what a row can hold; ValueError for what is no number."""
    seconds = pause.total_seconds() if isinstance(pause, timedelta) else float(pause)
    if isnan(seconds):
        raise ValueError("a pause of NaN seconds")
    return min(max(seconds, 0.0), MAX_SECONDS)


def _snoozed(job: Claimed, error: SnoozeJob) -> Outcome:
    delay, run_after = _when(error.until)
    return Outcome(
        lease=job.lease,
        job=job.id,
        state="scheduled",
        delay=delay,
        run_after=run_after,
        refund=1,
        kind="snoozed",
    )


def _when(until: datetime | timedelta) -> tuple[float | None, datetime | None]:
    if isinstance(until, timedelta):
        return _bounded(until), None
    if until.year not in YEARS:  # its time in another zone might be none
        return 0.0 if until.year < YEARS.start else MAX_SECONDS, None
    return None, until if timezone.is_aware(until) else timezone.make_aware(until)


def _failed(job: Claimed, error: BaseException, delay: float, *, options: Options) -> Outcome:
    return Outcome(
        lease=job.lease,
        job=job.id,
        state="scheduled" if delay > 0 else "ready",
        delay=delay,
        kind="failed",
        **_story(job, error, "retry", options=options),
    )


def _died(job: Claimed, error: BaseException, reason: str, *, options: Options) -> Outcome:
    state = "dead" if job.keep_dead else "dropped"
    return Outcome(
        lease=job.lease,
        job=job.id,
        state=state,
        kind=state,
        **_story(job, error, reason, options=options),
    )


def _story(
    job: Claimed,
    error: BaseException,
    reason: str,
    *,
    options: Options,
) -> Story:
    told = describe(error, limit=options.max_error_chars)
    data = {
        "reason": reason,
        "error": told.message,
        "class": told.class_path,
        "traceback": told.traceback,
    }
    return {
        "error": told.message,
        "fingerprint": fingerprint(job.task, error),
        "data": json.dumps(data),
    }


def _ended(job: Claimed, state: str, data: dict[str, str]) -> Outcome:
    return Outcome(
        lease=job.lease,
        job=job.id,
        state=state,
        kind=state,
        data=json.dumps(data),
    )
