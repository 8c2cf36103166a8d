"""``@task`` and what it makes: Django's Task with the options of django_jobs.

No model is imported here, so a module of tasks can be imported at any time.
"""

from __future__ import annotations

from django_jobs.tasks.arguments import check_call, misfit
from django_jobs.tasks.context import JobContext
from django_jobs.tasks.decorator import task
from django_jobs.tasks.faults import METADATA_BYTES, path_fault, path_of, shared_faults
from django_jobs.tasks.flow import chain, group
from django_jobs.tasks.job_task import Call, JobTask
from django_jobs.tasks.keys import keys_of
from django_jobs.tasks.lookup import placeholder, rebuild, resolve
from django_jobs.tasks.result import STATUS, AnyContext, AnyResult, AnyTask, JobResult
from django_jobs.tasks.row import row_of

__all__ = [
    "METADATA_BYTES",
    "STATUS",
    "AnyContext",
    "AnyResult",
    "AnyTask",
    "Call",
    "JobContext",
    "JobResult",
    "JobTask",
    "chain",
    "check_call",
    "group",
    "keys_of",
    "misfit",
    "path_fault",
    "path_of",
    "placeholder",
    "rebuild",
    "resolve",
    "row_of",
    "shared_faults",
    "task",
]
