"""``@task`` and what it makes: Django's Task with the options of django_jobs.

No model is imported here, so a module of tasks can be imported at any time.
"""

from __future__ import annotations

from django_jobs.tasks.decorator import task
from django_jobs.tasks.faults import METADATA_BYTES
from django_jobs.tasks.job_task import Call, JobTask
from django_jobs.tasks.lookup import is_path, placeholder, rebuild, resolve
from django_jobs.tasks.result import STATUS, AnyContext, AnyResult, AnyTask, JobResult

__all__ = [
    "METADATA_BYTES",
    "STATUS",
    "AnyContext",
    "AnyResult",
    "AnyTask",
    "Call",
    "JobResult",
    "JobTask",
    "is_path",
    "placeholder",
    "rebuild",
    "resolve",
    "task",
]
