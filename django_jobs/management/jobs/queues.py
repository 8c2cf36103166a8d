"""``jobs queues``: who waits, for how long, and who serves them."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime

from django_jobs.management.frame import Call, Status
from django_jobs.management.output import Columns, Record, duration
from django_jobs.sql import Row, SiteDatabase

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
    params = {
        "backends": [call.backend for _ in call.options.queue_names],
        "queues": list(call.options.queue_names),
        "only": False,
        "counted": COUNTED,
        "most": MOST,
    }
    rows = SiteDatabase(call.database).fetch("queue_figures", params)
    found = [record_of(row) for row in rows if row[0] == call.backend]
    call.out.show(found, COLUMNS, none="There is no queue: the settings name none, nor any job.")
    return Status.DONE


def record_of(row: Row) -> Record:
    """Return a queue as JSON says it."""
    backend, name, ready, oldest, running, slots, paused, at, by, reason, until, workers, now = row
    return {
        "backend": backend, "queue": name, "health": _health(paused, ready, workers),
        "ready": min(ready, COUNTED), "is_more": ready > COUNTED,
        "oldest_seconds": _seconds(oldest, now), "running": running, "slots": slots,
        "workers": workers, "paused": paused, "paused_at": at if paused else None,
        "paused_by": by if paused else None, "paused_reason": reason if paused else None,
        "paused_until": until if paused else None,
    }  # fmt: skip


def _health(paused: object, ready: int, workers: int) -> str:
    if paused:
        return "paused"
    return "unserved" if ready and not workers else "ok"


def _seconds(oldest: datetime | None, now: datetime) -> float | None:
    return None if oldest is None else round(max((now - oldest).total_seconds(), 0.0), 3)


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else duration(seconds)


def _pause(by: str | None, reason: str | None, *, said: bool) -> str | None:
    """Say by whom it was paused, and why."""
    if not said:
        return None
    return f"by {by or 'somebody'}: {reason}" if reason else f"by {by or 'somebody'}"
