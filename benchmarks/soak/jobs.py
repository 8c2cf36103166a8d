"""The task of the soak: it notes that it ran, then takes its time."""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import Any

import psycopg

from django_jobs import constant, task
from django_jobs.worker.context import JobContext

PATIENCE = 60.0  # seconds in which a database that went away may come back
NOTE = """
    INSERT INTO soak_ledger (run, job, attempt, lease, pid)
    SELECT %(run)s, %(job)s, %(attempt)s, (
        SELECT l.id FROM django_jobs_lease l JOIN django_jobs_job j ON j.id = l.job_id
        WHERE l.job_id = %(job)s AND l.worker = %(worker)s::uuid AND j.attempt = %(attempt)s
    ), %(pid)s
    ON CONFLICT (run) DO NOTHING  -- a commit whose answer was lost is sent again
"""

_own = threading.local()


def connection() -> psycopg.Connection[Any]:
    """Return this thread's connection to the ledger, in autocommit."""
    found: psycopg.Connection[Any] | None = getattr(_own, "connection", None)
    if found is None or found.closed:
        url = os.environ["BENCH_DATABASE"]
        found = psycopg.connect(url, autocommit=True, application_name="ledger")
        _own.connection = found
    return found


def note(context: JobContext) -> None:
    """Write one row for this run, whatever happens to the database meanwhile."""
    result = context.task_result
    row = {
        "run": uuid.uuid4(),
        "job": int(result.id),
        "attempt": context.attempt,
        "worker": result.worker_ids[-1],
        "pid": os.getpid(),
    }
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection().execute(NOTE, row)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


@task(takes_context=True, max_attempts=20, backoff=constant(0.2))
def noted(context: JobContext, seconds: float) -> None:
    """Note the run, then sleep."""
    note(context)
    time.sleep(seconds)
