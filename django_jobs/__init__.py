"""Durable background jobs for Django's Tasks framework, on PostgreSQL."""

from __future__ import annotations

from django_jobs.exceptions import CancelJob, RetryJob, SnoozeJob
from django_jobs.limits import Limit
from django_jobs.placement import Requires
from django_jobs.retries import constant, exponential, linear
from django_jobs.tasks import JobContext, chain, group, task

__all__ = [
    "CancelJob",
    "JobContext",
    "Limit",
    "Requires",
    "RetryJob",
    "SnoozeJob",
    "chain",
    "constant",
    "exponential",
    "group",
    "linear",
    "task",
]
