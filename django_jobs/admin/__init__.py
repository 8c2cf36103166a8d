"""The operator's pages in Django's admin, one module a page."""

from __future__ import annotations

from django_jobs.admin.activity import ActivityAdmin
from django_jobs.admin.dead_letters import DeadLetterAdmin
from django_jobs.admin.jobs import JobAdmin
from django_jobs.admin.limits import LimitAdmin
from django_jobs.admin.queues import QueueAdmin
from django_jobs.admin.schedules import ScheduleAdmin
from django_jobs.admin.skips import SkipAdmin
from django_jobs.admin.workers import WorkerAdmin

__all__ = [
    "ActivityAdmin",
    "DeadLetterAdmin",
    "JobAdmin",
    "LimitAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "SkipAdmin",
    "WorkerAdmin",
]
