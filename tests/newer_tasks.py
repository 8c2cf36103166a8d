"""A task that a worker of an older deploy does not have."""

from __future__ import annotations

import os

from django_jobs import task

if os.environ.get("DEPLOYED") == "old":
    raise ModuleNotFoundError(f"No module named {__name__!r}", name=__name__)


@task
def work(number: int) -> int:
    """Return what it is given."""
    return number
