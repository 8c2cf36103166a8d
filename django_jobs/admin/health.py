"""How a worker is, by what it says of itself."""

from __future__ import annotations

from typing import Any


def health_of(worker: Any) -> str:
    """Return one word for how a worker is at its ``now``."""
    health: str = worker.health_at(worker.now)
    return health
