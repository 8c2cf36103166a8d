"""Record which placements a host passes over, and why."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from django_jobs.sql import Database, array


class Skipped(NamedTuple):
    """One placement that a host passes over."""

    placement: int
    reason: str
    detail: str


def skip(
    passed: Collection[Skipped],
    fitting: Collection[int],
    *,
    changed: Collection[int],
    host: str,
    worker: UUID,
    database: Database,
) -> tuple[int, int]:
    """Write the reasons that ``changed`` or are missing, drop those of what ``host`` fits.

    Returns how many rows were written and dropped; each written one has its event.
    """
    params = {
        "host": host,
        "worker": worker,
        "placements": array(each.placement for each in passed),
        "reasons": [each.reason for each in passed],
        "details": [each.detail for each in passed],
        "changed": array(changed),
        "fitting": array(fitting),
    }
    [(written, dropped)] = database.fetch("skip", params)
    return written, dropped
