"""Jobs that have ended, with a history; an operator to act on them; a gate for races."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from django.db import connection, connections
from django.db.models.functions import Now

import django_jobs.sql
from django_jobs.models import Event, Job
from django_jobs.operations.act import Actor
from tests.processes import wait_for

R = TypeVar("R")

ANA = Actor(id="7", name="ana", via="admin")
GATE = 4711
STORY: Any = {
    "reason": "attempts",
    "error": "ValueError: no",
    "class": "ValueError",
    "traceback": "…",
}


def ended(count: int = 1, state: str = "dead", **columns: Any) -> list[int]:
    """Insert jobs in a final state, each with the event of its end; return their ids."""
    columns = {
        "task": "tests.tasks.boom",
        "attempt": 3,
        "worker_ids": ["w1", "w2", "w3"],
        "started_at": Now(),
        "last_attempted_at": Now(),
        "finished_at": Now(),
        "error": "ValueError: no",
        "fingerprint": "0123456789abcdef",
        "settled_lease": 99,
        "suspect": True,
        **columns,
    }
    made = Job.objects.bulk_create(Job(state=state, **columns) for _ in range(count))
    kind = state if state in Event.Kind.values else "failed"
    Event.objects.bulk_create(
        Event(job_id=job.pk, kind=kind, attempt=3, life=1, data=STORY) for job in made
    )
    return [job.pk for job in made]


def live(state: str) -> int:
    """Insert one job in a live state; return its id."""
    columns: dict[str, Any] = {"attempt": 1} if state == "running" else {}
    columns |= {"run_after": Now()} if state == "scheduled" else {}
    return Job.objects.bulk_create([Job(task="tests.tasks.ok", state=state, **columns)])[0].pk


@contextmanager
def paused_at_the_gate(
    verb: str, call: Callable[[], R], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Future[R]]:
    """Run ``call`` in a thread up to where its statement has looked but not locked.

    The body runs while it waits there; after the body it goes on.
    """
    text, where = django_jobs.sql.load(verb), "ORDER BY j.id FOR "
    assert text.count(where) == 1
    wait = f"AND (SELECT 1 FROM pg_advisory_xact_lock({GATE})) = 1\n"
    gated = text.replace(where, wait + where)
    real = django_jobs.sql.load
    with connection.cursor() as cursor, ThreadPoolExecutor(1) as threads:
        cursor.execute("SELECT pg_advisory_lock(%s)", [GATE])
        monkeypatch.setattr(
            django_jobs.sql, "load", lambda name: gated if name == verb else real(name)
        )
        try:
            future = threads.submit(_called, call)
            wait_for(somebody_waits, what="Nobody came to the gate.")
            monkeypatch.setattr(django_jobs.sql, "load", real)
            yield future
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [GATE])


def _called(call: Callable[[], R]) -> R:
    try:
        return call()
    finally:
        connections.close_all()


def somebody_waits() -> bool:
    """Tell whether a session of this database stands at the gate."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
            " WHERE l.locktype = 'advisory' AND l.objid = %s AND NOT l.granted"
            " AND a.datname = current_database()",
            [GATE],
        )
        return bool(cursor.fetchone()[0])
