"""How a worker is, and whether a queue has one: by what workers say of themselves."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now

from django_jobs.models import Worker

BEATS = 3  # a lease outlives two missed heartbeats, and ends with the third
MOST = 1000  # workers that are looked at, the last heard of first


def health_of(worker: Any) -> str:
    """Return one word for how a worker is, by its own lease and when it last reported."""
    if worker.state == Worker.State.STOPPED:
        return "stopped"
    silence = (worker.now - worker.seen_at).total_seconds()
    if silence > worker.lease_seconds:
        return "gone"
    if silence > worker.lease_seconds * (BEATS - 1) / BEATS:
        return "late"
    return "draining" if worker.state == Worker.State.DRAINING else "live"


def is_served(queue: str, *, backend: str, database: str) -> bool:
    """Tell whether a worker that is not gone claims from the queue."""
    workers = Worker.objects.using(database).filter(backend=backend, state=Worker.State.RUNNING)
    columns = workers.only("state", "seen_at", "lease_seconds", "queues").annotate(now=Now())
    return any(
        health_of(worker) != "gone" and (worker.queues is None or queue in worker.queues)
        for worker in columns.order_by("-seen_at")[:MOST]
    )
