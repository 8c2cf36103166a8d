"""Find the row of a placement, or make it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from django_jobs.placement import Needs, Requires
from django_jobs.sql import Database


def columns_of(needs: Needs) -> dict[str, Any]:
    """Return a placement as its row keeps it."""
    return {
        "digest": needs.digest,
        "host": needs.requires.host,
        "labels": sorted(needs.requires.labels),
        "resources": json.dumps(needs.amounts),
    }


def needs_of(host: str | None, labels: Collection[str], resources: str, task: str | None) -> Needs:
    """Return what a row says; raise ValueError for one that a hand made wrong."""
    asked = Requires(host=host, labels=labels, resources=json.loads(resources))
    return Needs(requires=asked, task=task)


def place(needs: Needs, *, database: Database) -> int:
    """Return the id of the placement, 0 for any host.

    In a caller's transaction that is rolled back a new row goes with it.
    """
    if needs.is_anywhere:
        return 0
    params = {**columns_of(needs), "task": needs.task}
    [(found,)] = database.fetch("placement", params)
    return int(found)
