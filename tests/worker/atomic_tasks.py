"""Atomic tasks for real worker processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from django.db import transaction

from django_jobs import constant, task
from tests.ledger.models import Mark
from tests.tasks import note


@task(max_attempts=100, backoff=constant(0.1), atomic=True, takes_context=True)
def insert(context: Any, seconds: float) -> int:
    """Insert one row in the run's transaction, and note over another connection that it began."""
    note("begun", context)
    job = int(context.task_result.id)
    row = Mark.objects.create(key="row", job=job, attempt=context.attempt, pid=os.getpid())
    time.sleep(seconds)
    return row.pk


@task(max_attempts=3, backoff=constant(0.1), atomic=True, takes_context=True)
def die_after_commit(context: Any, key: str) -> str:
    """Lose the process between the commit and all that follows it."""
    note(f"begun {key}", context)
    Mark.objects.create(key=key)
    transaction.on_commit(lambda: os.kill(os.getpid(), signal.SIGKILL))
    return key


@task(max_attempts=3, backoff=constant(0.1), atomic=True, takes_context=True)
def until(context: Any, key: str, path: str) -> int:
    """Write a row, then wait until a file is there."""
    Mark.objects.create(key=key)
    note(f"begun {key}", context)
    deadline = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return int(context.attempt)
