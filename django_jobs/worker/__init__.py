"""The worker: one process that claims jobs, runs them and settles them."""

from __future__ import annotations

from django_jobs.worker.worker import Worker

__all__ = ["Worker"]
