"""Make scheduled jobs ready when their time has come."""

from __future__ import annotations

from uuid import UUID

from django_jobs.sql import Database

BATCH = 1000


def promote(*, worker: UUID, database: Database) -> int:
    """Make up to a thousand due jobs ready and ring for other sleepers; return how many."""
    rows = database.fetch("promote", {"limit": BATCH, "worker": worker})
    return sum(row[2] for row in rows)
