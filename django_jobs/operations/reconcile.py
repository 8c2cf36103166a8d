"""Make the permits in use what the leases say."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import NamedTuple

from django_jobs.sql import Database


class Righted(NamedTuple):
    """A key whose permits were counted wrong."""

    key: str
    said: int
    held: int  # by leases, as it says now


def reconcile(
    keys: Collection[str], *, transaction: AbstractContextManager[object], database: Database
) -> list[Righted]:
    """Count the leases of these keys, and write the count where it differs.

    ``transaction`` is one of ``database``, at READ COMMITTED. The rows are locked by a
    statement of its own: only the next one's snapshot has what was committed meanwhile.
    """
    params = {"keys": sorted(keys)}
    with transaction:
        database.fetch("reconcile_lock", params)
        return [Righted(*row) for row in database.fetch("reconcile", params)]
