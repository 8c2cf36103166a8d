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
    new: Collection[Skipped],
    fitting: Collection[int],
    *,
    host: str,
    worker: UUID,
    database: Database,
) -> tuple[int, int]:
    """Write the reasons that changed, drop those of placements that ``host`` fits.

    Returns how many rows were written and dropped; each written one has its event.
    """
    params = {
        "host": host,
        "worker": worker,
        "placements": array(each.placement for each in new),
        "reasons": [each.reason for each in new],
        "details": [each.detail for each in new],
        "fitting": array(fitting),
    }
    [(written, dropped)] = database.fetch("skip", params)
    return written, dropped
