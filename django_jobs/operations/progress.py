"""Write down what runs say of themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

from django_jobs.sql import Database, array, text_array
from django_jobs.tasks.context import Said


def write_progress(said: Mapping[int, Said], *, worker: UUID, database: Database) -> set[int]:
    """Write lease id → what its run says; return the leases that took it.

    Of leases that this worker holds, and that nobody is changing this moment.
    """
    params = {
        "leases": array(said),
        "texts": text_array(as_json(each) for each in said.values()),
        "worker": worker,
    }
    return {lease for (lease,) in database.fetch("progress", params)}


def as_json(said: Said) -> str:
    """Return the text in a lease's row; pure ASCII, so that any message can be stored."""
    return json.dumps(
        dict(zip(("done", "total", "message"), said, strict=True)), separators=(",", ":")
    )
