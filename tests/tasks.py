"""Small tasks that tests enqueue."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

import psycopg
from django.db import connection

from django_jobs import CancelJob, RetryJob, SnoozeJob, constant, task
from django_jobs.worker.connection import private_wrapper

_ledger: dict[int, psycopg.Connection[Any]] = {}


def ledger() -> psycopg.Connection[Any]:
    """Return this process's connection to the ledger, in autocommit."""
    found = _ledger.get(os.getpid())
    if found is None or found.closed:
        wrapper = private_wrapper("default", purpose="ledger")
        wrapper.connect()
        found = _ledger[os.getpid()] = wrapper.connection
    return found


def note(key: str, context: Any = None) -> None:
    """Write one row for an execution: who ran, which attempt, in which process."""
    job = int(context.task_result.id) if context is not None else None
    attempt = context.attempt if context is not None else 0
    ledger().execute(
        "INSERT INTO ledger_mark (key, job, attempt, lease, pid) VALUES (%s, %s, %s,"
        " (SELECT id FROM django_jobs_lease WHERE job_id = %s), %s)",
        [key, job, attempt, job, os.getpid()],
    )


@task(max_attempts=3, backoff=constant(1, jitter=0))
def ok(value: Any = None) -> Any:
    return value


@task(takes_context=True, max_attempts=20, backoff=constant(0.2))
def mark(context: Any, key: str, seconds: float = 0.0) -> str:
    note(key, context)
    time.sleep(seconds)
    return key


@task(takes_context=True, max_attempts=3, backoff=constant(0.5), idempotent=False)
def mark_once(context: Any, key: str, seconds: float = 0.0) -> str:
    note(key, context)
    time.sleep(seconds)
    return key


@task
def nap(seconds: float) -> None:
    time.sleep(seconds)


@task
async def anap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@task(max_attempts=2, backoff=constant(0.1))
def boom(text: str = "boom") -> None:
    raise ValueError(text)


@task(takes_context=True, max_attempts=3, backoff=constant(0.1))
def flaky(context: Any, failures: int) -> int:
    if context.attempt <= failures:
        raise OSError("not yet")
    return int(context.attempt)


@task(takes_context=True, max_attempts=3, backoff=constant(0.2))
def die(context: Any, key: str = "die") -> None:
    note(key, context)
    os.kill(os.getpid(), signal.SIGKILL)


@task(keep_dead=False, max_attempts=1)
def boom_dropped() -> None:
    raise ValueError("nobody keeps this")


@task(max_attempts=2, backoff=constant(0.05))
def ask_retry(after: float | None = None) -> None:
    raise RetryJob(after=after)


@task(takes_context=True)
def snooze_once(context: Any, path: str) -> str:
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.write("snoozed")
        from datetime import timedelta

        raise SnoozeJob(until=timedelta(seconds=0.2))
    return f"attempt {context.attempt}"


@task
def cancel_itself(reason: str) -> None:
    raise CancelJob(reason)


@task(max_attempts=1)
def leave(code: int = 1) -> None:
    sys.exit(code)


@task
def query(seconds: float = 0.0) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid(), pg_sleep(%s)", [seconds])
        return int(cursor.fetchone()[0])


@task(max_attempts=1)
def break_transaction() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


@task(max_attempts=1)
def write_and_fail(name: str) -> None:
    from django.contrib.auth.models import Group

    Group.objects.create(name=name)
    raise ValueError(name)


@task
def enqueue_on_commit_of(value: str) -> None:
    ok.enqueue_on_commit(value)


@task
def stamp(number: int, enqueued: float) -> float:
    return time.time()
