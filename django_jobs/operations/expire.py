"""End jobs that have not started in time."""

from __future__ import annotations

from typing import NamedTuple

from django_jobs.sql import Database

BATCH = 1000


class Expired(NamedTuple):
    """A job that will not run."""

    id: int
    backend: str
    has_children: bool  # jobs that wait for it
    queue: str


def expire(*, database: Database) -> list[Expired]:
    """Let up to a thousand jobs expire whose time to start is over.

    One that has ever started is never among them: its deadline was for the start.
    """
    return [Expired(*row) for row in database.fetch("expire", {"limit": BATCH})]
