"""Read jobs as Django's task results."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from django_jobs.compat import TaskError
from django_jobs.exceptions import UnknownTask
from django_jobs.models import Event, Job
from django_jobs.operations.claim import Claimed
from django_jobs.states import JobState
from django_jobs.tasks import STATUS, JobResult, placeholder, rebuild, resolve
from django_jobs.tasks.context import RunningJob

ERROR_KINDS = ("failed", "rescued", "dead", "dropped", "cancelled")


def results(ids: Collection[int], *, backend: str, database: str) -> dict[int, JobResult]:
    """Return job id → result for those of ``ids`` that exist under ``backend``."""
    jobs = Job.objects.using(database).filter(pk__in=list(ids), backend=backend)
    found = {job.pk: job for job in jobs}
    errors = _errors(found, database=database) if found else {}
    return {pk: _result(job, errors.get(pk, [])) for pk, job in found.items()}


def _errors(jobs: Mapping[int, Job], *, database: str) -> dict[int, list[TaskError]]:
    events = (
        Event.objects.using(database)
        .filter(job_id__in=list(jobs), kind__in=ERROR_KINDS)
        .order_by("id")
        .values_list("job_id", "life", "data")
    )
    errors: dict[int, list[TaskError]] = defaultdict(list)
    for pk, life, data in events:
        if pk is not None and life == jobs[pk].life and data and "class" in data:
            errors[pk].append(_error(cast("Mapping[str, Any]", data)))
    return errors


def _error(data: Mapping[str, Any]) -> TaskError:
    return TaskError(
        exception_class_path=data.get("class", "django_jobs.exceptions.DjangoJobsError"),
        traceback=data.get("traceback", data.get("error", "")),
    )


def _result(job: Job, errors: list[TaskError]) -> JobResult:
    state = known_state(job.state, finished=job.finished_at is not None)
    result = JobResult(
        task=task_of(job.task, job.queue, job.priority, job.backend, job.run_after),
        id=str(job.pk),
        status=STATUS[state],
        state=state,
        enqueued_at=job.enqueued_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        last_attempted_at=job.last_attempted_at,
        args=job.args,
        kwargs=job.kwargs,
        backend=job.backend,
        errors=errors,
        worker_ids=job.worker_ids,
        metadata=job.metadata or {},
    )
    object.__setattr__(result, "_return_value", job.result)
    return result


def known_state(value: str, *, finished: bool) -> JobState:
    """Return a state that this version knows; a later one may have written others."""
    try:
        return JobState(value)
    except ValueError:
        return JobState.CANCELLED if finished else JobState.WAITING


def task_of(
    path: str,
    queue: str,
    priority: int,
    backend: str,
    run_after: datetime | None,
) -> Any:
    """Return the task of a job's row with the options of that row, never an error."""
    try:
        task = resolve(path)
    except UnknownTask:
        task = placeholder(path)
    return rebuild(
        task,
        queue_name=queue,
        priority=priority,
        backend=backend,
        run_after=run_after,
    )


def running(job: Claimed, task: Any, *, backend: str) -> JobResult:
    """Return the result of a run that begins, as signals and the context see it."""
    return JobResult(
        task=rebuild(
            task,
            queue_name=job.queue,
            priority=job.priority,
            backend=backend,
            run_after=job.run_after,
        ),
        id=str(job.id),
        status=STATUS[JobState.RUNNING],
        state=JobState.RUNNING,
        enqueued_at=job.enqueued_at,
        started_at=job.started_at,
        finished_at=None,
        last_attempted_at=job.last_attempted_at,
        args=json.loads(job.args),
        kwargs=json.loads(job.kwargs),
        backend=backend,
        errors=_past_errors(job.errors or ()),
        worker_ids=job.worker_ids,
        metadata=json.loads(job.metadata) if job.metadata else {},
    )


def running_job(job: Claimed, result: JobResult) -> RunningJob:
    """Return what the context of a run tells of its job."""
    return RunningJob(
        id=result.id,
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        enqueued_at=job.enqueued_at,
        worker=job.worker_ids[-1],
        metadata=result.metadata,
    )


def _past_errors(datas: Iterable[str]) -> list[TaskError]:
    return [_error(json.loads(data)) for data in datas if data]
