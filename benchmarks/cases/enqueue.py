"""What one enqueue in autocommit costs beside Model.objects.create of the same columns."""

from __future__ import annotations

import json

from benchmarks.server import Server, fresh
from benchmarks.systems import ours


def pairs(
    server: Server, template: str, *, count: int, system: ours.Ours = ours.SYSTEM
) -> dict[str, list[float]]:
    """Return the seconds of ``count`` enqueues and as many creates, made by turns."""
    with fresh(server, template) as dbname:
        words = ("-m", "benchmarks.sites.ours", "pairs", str(count))
        env = ours.variables(server.url(dbname))
        found: dict[str, list[float]] = json.loads(system.environment.run(*words, env=env))
        return found
