"""A worker uses no more connections than the documentation says, and gives them back."""

from __future__ import annotations

import pytest

from django_jobs.models import Job
from django_jobs.testing import running_worker
from tests import tasks
from tests.test_testing import other_sessions, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

PLACES = 6
SERVICES = 5  # loop, renewer, sweeper, listener, notifier


def test_threads_and_coroutines_reuse_connections_and_close_them_when_idle() -> None:
    tasks.query.enqueue_many(tasks.query.s() for _ in range(200))
    tasks.aquery.enqueue_many(tasks.aquery.s() for _ in range(200))
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, other_sessions())
        return not Job.objects.live().exists()

    with running_worker(max_in_flight=PLACES, poll_ceiling_seconds=0.5):
        wait_for(done, seconds=30)
        assert most <= PLACES + PLACES + SERVICES  # threads, coroutines, services
        ran = Job.objects.filter(task=tasks.query.module_path)
        pids = set(ran.values_list("result", flat=True))
        assert len(pids) <= PLACES  # 200 jobs, no connection of their own each
        wait_for(lambda: other_sessions() <= SERVICES, seconds=12)
    wait_for(lambda: other_sessions() == 0, seconds=2)
    assert Job.objects.filter(state="succeeded").count() == 400
