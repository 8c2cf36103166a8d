"""Drop the rows of workers that are long gone."""

from __future__ import annotations

from django_jobs.sql import Database

AFTER_SECONDS = 24 * 3600.0


def forget(*, database: Database) -> None:
    """Delete the rows of workers unseen for a day that hold no lease."""
    database.fetch("forget", {"after": AFTER_SECONDS})
