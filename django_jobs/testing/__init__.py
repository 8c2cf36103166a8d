"""For the tests of a site: run what is enqueued, and look at it."""

from __future__ import annotations

from django_jobs.testing.drain import Ran, run_jobs
from django_jobs.testing.live import running_worker
from django_jobs.testing.looks import assert_enqueued, capture_jobs

__all__ = ["Ran", "assert_enqueued", "capture_jobs", "run_jobs", "running_worker"]
