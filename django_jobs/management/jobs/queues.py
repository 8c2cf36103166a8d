"""``jobs queues``: who waits, for how long, and who serves them."""

from __future__ import annotations

from argparse import ArgumentParser

from django_jobs.management.frame import Call, Status
from django_jobs.management.output import Columns, Record, duration
from django_jobs.operations.queue_state import QueueState
from django_jobs.sql import SiteDatabase

HELP = "List the queues: how many jobs are ready, since when, and who serves them."
MOST = 200
COUNTED = 10_000  # ready jobs of a queue

COLUMNS: Columns = {
    "QUEUE": lambda each: each["queue"],
    "HEALTH": lambda each: each["health"],
    "OLDEST": lambda each: _age(each["oldest_seconds"]),
    "READY": lambda each: f"{COUNTED}+" if each["is_more"] else each["ready"],
    "RUNNING": lambda each: each["running"],
    "SLOTS": lambda each: each["slots"],
    "WORKERS": lambda each: each["workers"],
    "PAUSED": lambda each: _pause(each["paused_by"], each["paused_reason"], said=each["paused"]),
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare nothing of its own."""


def run(call: Call) -> Status:
    """List every queue that settings, operators or live jobs name."""
    names = [(call.backend, name) for name in call.options.queue_names]
    rows = QueueState.read(names, counted=COUNTED, most=MOST, database=SiteDatabase(call.database))
    found = [record_of(row) for row in rows if row.backend == call.backend]
    call.out.show(found, COLUMNS, none="There is no queue: the settings name none, nor any job.")
    return Status.DONE


def record_of(row: QueueState) -> Record:
    """Return a queue as JSON says it."""
    return {
        "backend": row.backend, "queue": row.name, "health": row.state,
        "ready": min(row.ready, COUNTED), "is_more": row.ready > COUNTED,
        "oldest_seconds": None if row.age is None else round(row.age, 3),
        "running": row.running, "slots": row.own_slots, "workers": row.workers,
        "paused": row.paused, "paused_at": row.paused_at if row.paused else None,
        "paused_by": row.paused_by if row.paused else None,
        "paused_reason": row.paused_reason if row.paused else None,
        "paused_until": row.paused_until if row.paused else None,
    }  # fmt: skip


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else duration(seconds)


def _pause(by: str | None, reason: str | None, *, said: bool) -> str | None:
    """Say by whom it was paused, and why."""
    if not said:
        return None
    return f"by {by or 'somebody'}: {reason}" if reason else f"by {by or 'somebody'}"
