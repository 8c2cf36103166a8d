"""The tables, one model a module."""

from __future__ import annotations

from django_jobs.models.activity import Activity
from django_jobs.models.dead_letter import DeadLetter
from django_jobs.models.dependency import Dependency
from django_jobs.models.event import Event
from django_jobs.models.fields import JSONText
from django_jobs.models.job import Job
from django_jobs.models.lease import Lease
from django_jobs.models.limit import Limit
from django_jobs.models.placement import Placement
from django_jobs.models.queue import Queue
from django_jobs.models.schedule import Schedule
from django_jobs.models.skip import Skip
from django_jobs.models.worker import Worker

__all__ = [
    "Activity",
    "DeadLetter",
    "Dependency",
    "Event",
    "JSONText",
    "Job",
    "Lease",
    "Limit",
    "Placement",
    "Queue",
    "Schedule",
    "Skip",
    "Worker",
]
