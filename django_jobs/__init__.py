"""Durable background jobs for Django's Tasks framework, on PostgreSQL."""

from __future__ import annotations

from django_jobs.exceptions import CancelJob, RetryJob, SnoozeJob
from django_jobs.placement import Requires
from django_jobs.retries import constant, exponential, linear
from django_jobs.tasks import JobContext, task

__all__ = [
    "CancelJob",
    "JobContext",
    "Requires",
    "RetryJob",
    "SnoozeJob",
    "constant",
    "exponential",
    "linear",
    "task",
]
