"""Make scheduled jobs ready when their time has come."""

from __future__ import annotations

from uuid import UUID

from django_jobs.sql import Database

BATCH = 1000


def promote(*, worker: UUID, lease_seconds: float, database: Database) -> int:
    """Make up to a thousand due jobs ready and ring for other sleepers; return how many."""
    params = {"limit": BATCH, "worker": worker, "lease": float(lease_seconds)}
    return sum(row[2] for row in database.fetch("promote", params))
