"""Looks at what was enqueued."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django_jobs import payloads
from django_jobs.compat import DEFAULT_TASK_BACKEND_ALIAS, TaskResult, task_enqueued
from django_jobs.conf import Options
from django_jobs.models import Job
from django_jobs.operations.results import results
from django_jobs.tasks import AnyTask, JobResult

ANY_SIZE = 2**30


def assert_enqueued(
    task: AnyTask,
    *,
    args: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    queue_name: str | None = None,
    count: int | None = None,
) -> list[JobResult]:
    """Return the jobs of ``task`` with these arguments; fail when there are none.

    ``count`` asks for exactly so many, which may be 0; what is None is not compared. Jobs
    that have run count too.
    """
    alias = task.backend
    jobs = Job.objects.using(Options(alias).database).filter(backend=alias, task=task.module_path)
    wanted = {"args": None if args is None else _normal(list(args)), "kwargs": _normal(kwargs)}
    found = [
        job
        for job in jobs.order_by("id")
        if all(value is None or getattr(job, name) == value for name, value in wanted.items())
        and queue_name in (None, job.queue)
    ]
    if (not found) if count is None else (count != len(found)):
        expected = "at least 1" if count is None else str(count)
        told = _told(jobs, wanted | {"queue_name": queue_name})
        raise AssertionError(
            f"{len(found)} jobs of {task.module_path} match {told[0]}, expected {expected}; "
            f"enqueued are:{told[1]}"
        )
    by_id = results([job.pk for job in found], backend=alias, database=Options(alias).database)
    return [by_id[job.pk] for job in found]


def _normal(value: Any) -> Any:
    return (
        value
        if value is None
        else payloads.loads(payloads.dumps(value, where="expected", limit=ANY_SIZE))
    )


def _told(jobs: Any, wanted: dict[str, Any]) -> tuple[str, str]:
    """Return what was asked for, and what there is."""
    asked = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not None)
    seen = "".join(
        f"\n  #{job.pk} args={job.args!r} kwargs={job.kwargs!r} queue_name={job.queue!r}"
        for job in jobs.order_by("id")[:20]
    )
    return asked or "any arguments", seen or " none"


@contextmanager
def capture_jobs(
    *,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
) -> Iterator[list[TaskResult[..., Any]]]:
    """Collect the results of what is enqueued inside the block."""
    captured: list[TaskResult[..., Any]] = []

    def note(sender: object, task_result: TaskResult[..., Any], **_: object) -> None:
        if task_result.backend == backend:
            captured.append(task_result)

    task_enqueued.connect(note, weak=False)
    try:
        yield captured
    finally:
        task_enqueued.disconnect(note)
