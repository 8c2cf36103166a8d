"""A worker uses no more connections than the documentation says, and gives them back."""

from __future__ import annotations

import pytest
from django.db import connection

from django_jobs.models import Job
from django_jobs.testing import running_worker
from tests import tasks
from tests.test_testing import wait_for

pytestmark = pytest.mark.django_db(transaction=True)

PLACES = 6
SERVICES = 5  # loop, renewer, sweeper, listener, notifier


def open_connections() -> int:
    """Count the other sessions on this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


def test_threads_and_coroutines_reuse_connections_and_close_them_when_idle() -> None:
    tasks.query.enqueue_many(tasks.query.s() for _ in range(200))
    tasks.aquery.enqueue_many(tasks.aquery.s() for _ in range(200))
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, open_connections())
        return not Job.objects.live().exists()

    with running_worker(max_in_flight=PLACES, poll_ceiling_seconds=0.5):
        wait_for(done, seconds=30)
        assert most <= PLACES + PLACES + SERVICES  # threads, coroutines, services
        ran = Job.objects.filter(task=tasks.query.module_path)
        pids = set(ran.values_list("result", flat=True))
        assert len(pids) <= PLACES  # 200 jobs, no connection of their own each
        wait_for(lambda: open_connections() <= SERVICES, seconds=12)
    assert open_connections() == 0
    assert Job.objects.filter(state="succeeded").count() == 400
