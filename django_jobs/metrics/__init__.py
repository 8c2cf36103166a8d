"""Metrics on prometheus-client's default registry, where that library is installed."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = "metrics need prometheus-client. Run: pip install 'django-jobs[metrics]'"


def is_available() -> bool:
    """Return whether the library is there; it is not imported."""
    return find_spec("prometheus_client") is not None


def register() -> None:
    """Put every metric on the default registry, once; without the library do nothing."""
    if is_available():
        from django_jobs.metrics.registering import register_all

        register_all()
