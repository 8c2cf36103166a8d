"""``jobs workers``: who is alive, and what each holds."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django_jobs.management.frame import Call, Status
from django_jobs.management.output import Columns, Record, duration
from django_jobs.models import Worker

HELP = "List the workers: how each is, what it serves and holds."
MOST = 500

COLUMNS: Columns = {
    "WORKER": lambda each: f"{each['name']}:{each['pid']}",
    "STATE": lambda each: each["health"],
    "IN FLIGHT": lambda each: f"{each['in_flight']}/{each['capacity']}",
    "HEARD OF": lambda each: duration(each["silence_seconds"]),
    "QUEUES": lambda each: "all" if each["queues"] is None else ",".join(each["queues"]),
    "ANSWERS AT": lambda each: each["address"],
    "VERSION": lambda each: each["version"],
    "ID": lambda each: each["worker"],
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare which to list."""
    parser.add_argument(
        "--all", action="store_true", help="also those that are gone or have stopped"
    )


def run(call: Call) -> Status:
    """List them, the last heard of first."""
    call.out.show(records(call), COLUMNS, none="No worker is live. Start one: manage.py jobworker")
    return Status.DONE


def records(call: Call) -> Iterator[Record]:
    """Yield what is known of each worker of this backend."""
    rows: Any = Worker.objects.using(call.database).filter(backend=call.backend)
    if not call.given.all:
        rows = rows.unstopped()
    for row in rows.last_heard_of_first()[:MOST]:
        health = row.health_at(row.now)
        if call.given.all or health != "gone":
            yield record_of(row, health)


def record_of(row: Any, health: str) -> Record:
    """Return a worker as JSON says it."""
    return {
        "worker": row.pk, "name": row.name, "pid": row.pid, "backend": row.backend,
        "health": health, "state": row.state, "in_flight": row.in_flight,
        "capacity": row.capacity, "queues": row.queues, "cron": row.cron,
        "labels": row.labels, "resources": row.resources, "address": row.health,
        "silence_seconds": round(max(row.silence_at(row.now), 0.0), 3),
        "seen_at": row.seen_at, "loop_at": row.loop_at, "started_at": row.started_at,
        "version": row.version,
    }  # fmt: skip
