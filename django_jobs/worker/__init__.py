"""The worker: one process that claims jobs, runs them and settles them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_jobs.worker.worker import Worker

__all__ = ["Worker"]


def __getattr__(name: str) -> Any:
    """Import the worker when it is asked for: the process of a run needs no models so early."""
    if name != "Worker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from django_jobs.worker.worker import Worker

    return Worker
