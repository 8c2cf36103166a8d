"""Take back jobs whose lease lapsed."""

from __future__ import annotations

from dataclasses import dataclass

from django_jobs.sql import Database


@dataclass(frozen=True, slots=True)
class Rescued:
    """A job taken from a worker that did not renew; ``state`` is its new one."""

    id: int
    backend: str
    state: str
    queue: str
    task: str
    attempt: int
    limit_key: str | None = None  # whose permit came back
    has_children: bool = False  # jobs that wait for it, and it is final


def rescue(*, quiet: float, database: Database, only: int | None = None) -> list[Rescued]:
    """Reschedule or bury what has lapsed, at most 100 jobs a call; ``only``: one lease.

    Nothing happens while no worker's heartbeat has moved for ``quiet`` seconds: then
    the database was away, and the next beat gives the late ones more time.
    """
    params = {"quiet": float(quiet), "only": only}
    return [Rescued(*row) for row in database.fetch("rescue", params)]


def lapsed(*, database: Database) -> list[int]:
    """Return the ids of all leases that were not renewed in time."""
    return [row[0] for row in database.fetch("lapsed", {})]
