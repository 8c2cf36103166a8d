"""Every metric of this process on the default registry."""

from __future__ import annotations

from functools import cache

from prometheus_client import REGISTRY

from django_jobs import watchers
from django_jobs.metrics.database import DATABASE
from django_jobs.metrics.runs import RUNS
from django_jobs.metrics.workers import WORKERS


@cache
def register_all() -> None:
    """Register the collectors; no statement is sent, for they describe themselves."""
    REGISTRY.register(DATABASE)
    REGISTRY.register(WORKERS)
    watchers.watch(RUNS)
    watchers.watch(WORKERS)
