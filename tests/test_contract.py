"""The contract of Django's Tasks framework, kept by JobsBackend."""

from __future__ import annotations

from typing import Any, ClassVar

from django.test import TransactionTestCase

from django_jobs import constant
from django_jobs.conf import Options
from django_jobs.conformance import BackendConformanceTests
from django_jobs.worker import Worker


class TestJobsBackend(BackendConformanceTests, TransactionTestCase):
    """Every job is run by a real worker in this process."""

    backend = "django_jobs.backend.JobsBackend"
    options: ClassVar[dict[str, Any]] = {
        "max_in_flight": 1,
        "max_attempts": 2,
        "backoff": constant(0.01),
    }

    def run_jobs(self, alias: str) -> None:
        """Let one worker run until a pass finds nothing."""
        worker = Worker(Options(alias), once=True)
        assert 0 == worker.run()
        worker.join()
