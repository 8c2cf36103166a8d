"""The contract of Django's Tasks framework, kept by JobsBackend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

from django.test import TransactionTestCase

from django_jobs import constant
from django_jobs.compat import TaskResultStatus
from django_jobs.conf import Options
from django_jobs.conformance import BackendConformanceTests, tasks
from django_jobs.states import JobState
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

    def with_options(self, task: Any, **changes: Any) -> Any:
        """Return a task with options that Django's own decorator does not have."""
        return replace(self.using(task), **changes)

    def test_a_job_that_waits_for_its_retry_is_ready(self) -> None:
        """Not failed: that is said once it is true for good."""
        result = self.with_options(tasks.fail, backoff=constant(60)).enqueue("x")
        self.run_jobs(self.alias)
        result.refresh()
        assert (TaskResultStatus.READY, JobState.SCHEDULED) == (result.status, result.state)
        assert (1, 1, None) == (result.attempts, len(result.errors), result.finished_at)
        assert not self.signals.finished(result.id)

    def test_a_dropped_job_has_failed_and_has_its_errors(self) -> None:
        """Dropped means that no dead letter is kept, not that nobody may ask."""
        result = self.with_options(tasks.fail, keep_dead=False, max_attempts=1).enqueue("x")
        self.finish(result)
        assert (TaskResultStatus.FAILED, JobState.DROPPED) == (result.status, result.state)
        assert [tasks.Boom] == [error.exception_class for error in result.errors]

    def test_a_worker_id_is_a_uuid(self) -> None:
        """It names one start of one worker."""
        for worker in self.run_to_the_end(tasks.echo).worker_ids:
            assert worker == str(UUID(worker))
