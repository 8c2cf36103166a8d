"""Settings of TASKS that tests choose, and looks at what was enqueued under them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection

from django_jobs.compat import django_task
from django_jobs.conf import Options
from django_jobs.models import Job

BACKEND = "django_jobs.backend.JobsBackend"
DJANGOS = f"{django_task.__module__.rpartition('.')[0]}.backends"


def put_options(settings: Any, options: Any = None, **params: Any) -> Options:
    """Set OPTIONS, and other keys, of the default alias."""
    given = {} if options is None else options
    settings.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": given, **params}}
    return Options("default")


def put_backends(settings: Any) -> None:
    """Set TASKS: ours under two aliases, and Django's two."""
    settings.TASKS = {
        "default": {"BACKEND": BACKEND, "QUEUES": []},
        "second": {"BACKEND": BACKEND, "QUEUES": []},
        "dummy": {"BACKEND": f"{DJANGOS}.dummy.DummyBackend", "QUEUES": []},
        "immediate": {"BACKEND": f"{DJANGOS}.immediate.ImmediateBackend", "QUEUES": []},
    }


def only_job() -> Any:
    """Return the one job that there is."""
    return Job.objects.get()


def database_time() -> datetime:
    """Return the time of the only clock that counts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now
