"""One real worker process from start to stop, for every supported pair of versions."""

from __future__ import annotations

from typing import Any

import pytest

from django_jobs.models import Job, Lease
from tests.processes import JobWorkers, wait_for
from tests.tasks import anap, flaky, ok


@pytest.mark.subprocess
def test_a_real_worker_runs_jobs_retries_one_and_drains(jobworker: JobWorkers) -> None:
    results: list[Any] = [ok.enqueue({"a": 1}), anap.enqueue(0.01), flaky.enqueue(1)]
    worker = jobworker("--max-in-flight", "2")
    wait_for(lambda: Job.objects.filter(state="succeeded").count() == 3, what=worker.log())
    worker.term()
    assert 0 == worker.wait(20), worker.log()
    for result in results:
        result.refresh()
    assert [{"a": 1}, "rested", 2] == [result.return_value for result in results]
    assert [1, 1, 2] == [result.attempts for result in results]
    assert not Lease.objects.exists()
    assert "3 succeeded, 1 to retry" in worker.log()
