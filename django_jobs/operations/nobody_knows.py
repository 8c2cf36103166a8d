"""Warn of jobs that wait for code which no live worker has."""

from __future__ import annotations

from django_jobs.sql import Database


def nobody_knows(*, after: float, database: Database) -> list[str]:
    """Note since when nobody knows a task; return those that are due a warning.

    Each is returned, and has its event, once per ``after`` seconds without a worker that
    knows it, whichever worker asks. Tasks without ready jobs, and backends without a live
    worker, are left alone: other reasons tell of those.
    """
    return [row[0] for row in database.fetch("nobody_knows", {"after": after})]
