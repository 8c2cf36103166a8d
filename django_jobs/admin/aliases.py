"""Which backends of TASKS are ours, and which database holds their jobs."""

from __future__ import annotations

from django.db import router

from django_jobs.backend import JobsBackend
from django_jobs.compat import InvalidTaskBackend, task_backends
from django_jobs.conf import InvalidOption, Options
from django_jobs.models import Job


def job_aliases() -> list[Options]:
    """Return the options of each backend of ours, in the order of TASKS."""
    return [Options(alias) for alias in task_backends if _is_ours(alias)]


def _is_ours(alias: str) -> bool:
    try:
        return isinstance(task_backends[alias], JobsBackend)
    except InvalidTaskBackend:  # another's fault, told by Django's own check
        return False


def jobs_database() -> str:
    """Return the alias of the database that the pages show and change."""
    for options in job_aliases():
        try:
            return options.database
        except InvalidOption:  # a system check tells it; the pages go on
            continue
    return router.db_for_write(Job)


def queue_names(options: Options) -> list[str]:
    """Return the queues that the settings name."""
    try:
        return options.queue_names
    except InvalidOption:
        return []


def schedule_names(options: Options) -> list[str]:
    """Return the schedules that the settings name."""
    try:
        return list(options.cron)
    except InvalidOption:
        return []


def slots(options: Options, queue: str) -> int | None:
    """Return the slots of a queue that the settings name; None: the default."""
    try:
        found = options.queues.get(queue)
    except InvalidOption:
        return None
    return found.slots if found else None
