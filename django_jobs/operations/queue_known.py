"""Refuse an act on a queue that nobody has heard of."""

from __future__ import annotations

from django_jobs.conf import (
    QUEUE_RULE,
    Options,
    backend_fault,
    is_queue_name,
    queue_fault,
    shown,
)
from django_jobs.exceptions import Refused
from django_jobs.sql import SiteDatabase


def require_queue(name: str, *, backend: str, database: str) -> None:
    """Raise Refused unless settings, an operator or a job knows the queue.

    A queue that was taken out of the settings has jobs for a while.
    """
    require_name(name)
    fault = backend_fault(backend)
    if fault is not None:
        raise Refused(fault)
    fault = queue_fault(name, Options(backend))
    if fault is not None and not _is_known(name, backend=backend, database=database):
        raise Refused(f"Queue {name!r} {fault}")


def require_name(name: str) -> None:
    """Raise Refused for what cannot name a queue."""
    if not is_queue_name(name):
        raise Refused(f"{shown(name)} names no queue: {QUEUE_RULE}.")


def _is_known(name: str, *, backend: str, database: str) -> bool:
    params = {"backend": backend, "queue": name}
    [(known,)] = SiteDatabase(database).fetch("queue_known", params)
    return bool(known)
