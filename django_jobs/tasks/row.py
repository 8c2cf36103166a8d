"""What a job's row keeps of its task."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from math import inf
from typing import Any

from django.utils import timezone

from django_jobs.conf import Options
from django_jobs.placement import Needs
from django_jobs.retries import Backoff, class_path
from django_jobs.tasks.faults import metadata_text, seconds_of
from django_jobs.tasks.job_task import JobTask
from django_jobs.tasks.kept import Kept
from django_jobs.tasks.lookup import placeholder
from django_jobs.tasks.parents import parents_of
from django_jobs.tasks.result import AnyTask

PLAIN = placeholder("django.tasks.task")  # the options of a task that is not ours


def row_of(task: AnyTask, options: Options) -> dict[str, Any]:
    """Return what a job's row says of a task that has been checked."""
    return {
        "task": task.module_path,
        "queue": task.queue_name,
        "priority": task.priority,
        "needs": _needs(task, options),
        **_times(task),
        "parents": parents_of(task),
        "after_failure": getattr(task, "after_failure", False),
        **_policy(task if isinstance(task, JobTask) else PLAIN, options),
    }


def _needs(task: AnyTask, options: Options) -> Needs | None:
    """Return what is asked of a host; None: any will do."""
    own = getattr(task, "requires", None)
    asked = options.requires(task.queue_name) if own is None else own
    needs = None if asked is None else Needs(requires=asked)
    return None if needs is None or needs.is_anywhere else needs


def _times(task: AnyTask) -> dict[str, Any]:
    when, wait = task.run_after, getattr(task, "run_in", None)
    if when is not None and timezone.is_naive(when):  # only where USE_TZ is False
        when = timezone.make_aware(when)
    return {
        "run_after": when,
        "delay": None if wait is None else max(wait.total_seconds(), 0.0),
        "expires_in": seconds_of(getattr(task, "expires_after", None)),
    }


def _policy(task: JobTask[..., Any], options: Options) -> dict[str, Any]:
    """Return the retry policy as the job's row keeps it, whatever is deployed later.

    A function as backoff cannot be kept; the numbers of the settings stand in for it.
    """
    backoff = task.backoff if isinstance(task.backoff, Backoff) else options.backoff
    metadata = task.metadata
    return {
        "metadata": None if metadata is None else metadata_text(metadata),
        "max_attempts": options.max_attempts if task.max_attempts is None else task.max_attempts,
        "backoff": backoff.kind,
        "backoff_base": float(backoff.base),  # ints among floats make no array
        "backoff_cap": float(backoff.cap),
        "backoff_jitter": float(backoff.jitter),
        "retry_on": None if task.retry_on == (Exception,) else _paths(task.retry_on),
        "give_up_on": _paths(task.give_up_on) or None,
        "keep_dead": task.keep_dead,
        "idempotent": task.idempotent,
        "timeout": _timeout(task.timeout),
    }


def _timeout(value: timedelta | float | Kept | None) -> float | None:
    """Return seconds, infinitely many where the task says that it has no timeout."""
    if isinstance(value, Kept):
        return None
    return inf if value is None else seconds_of(value)


def _paths(classes: Iterable[type[BaseException]]) -> list[str]:
    return [class_path(kind) for kind in classes]
