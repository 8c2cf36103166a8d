"""The tasks that are measured."""

from __future__ import annotations

import time

from django_jobs import task


@task
def noop() -> None:
    """Do nothing."""


@task
def clock() -> float:
    """Say when user code began."""
    return time.time()
