"""The workers: alive or not by the database's clock, and what each holds."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client, override_settings

from django_jobs.models import Lease, Worker
from tests.admin.pages import WORKERS, page_of, shown
from tests.operations.ended import live

pytestmark = pytest.mark.django_db


def worker(*, silence: float = 0, leases: int = 0, **columns: Any) -> Worker:
    made = Worker.objects.create(
        **{
            "id": uuid4(), "backend": "default", "name": "web", "pid": 7, "version": "1",
            "capacity": 6, **columns,
        }
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_jobs_worker SET seen_at = statement_timestamp() - %s * interval '1 s'"
            " WHERE id = %s",
            [silence, made.pk],
        )
    for _ in range(leases):
        Lease.objects.create(
            job_id=live("running"), worker=made.pk, expires_at="2999-01-01T00:00Z"
        )
    return made


def listed(client: Client) -> dict[UUID, Any]:
    return {row.pk: row for row in client.get(WORKERS).context["cl"].result_list}


def test_each_worker_has_its_own_number_of_leases(viewer: Client) -> None:
    counts = {worker(leases=number, pid=number).pk: number for number in (0, 1, 3)}
    assert counts == {pk: row.held_count for pk, row in listed(viewer).items()}
    assert ">3/6<" in shown(viewer, WORKERS)


@pytest.mark.parametrize(
    ("silence", "columns", "word"),
    [
        (0.1, {}, "live"),
        (25, {}, "late"),  # two heartbeats missed
        (31, {}, "gone"),  # a whole lease
        (31, {"state": "draining"}, "gone"),
        (1, {"state": "draining"}, "draining"),
        (90_000, {"state": "stopped"}, "stopped"),
        (1, {"state": "of a later version"}, "live"),
        (31, {"backend": "of nobody"}, "gone"),
    ],
)
def test_health_is_what_its_silence_says(
    viewer: Client, silence: float, columns: dict[str, Any], word: str
) -> None:
    worker(silence=silence, **columns)
    assert f'jobs-badge jobs-{word}"' in shown(viewer, WORKERS)


def test_health_follows_the_lease_of_the_settings(viewer: Client) -> None:
    worker(silence=31)
    tasks = {
        "default": {
            "BACKEND": "django_jobs.backend.JobsBackend",
            "OPTIONS": {"lease_seconds": 120},
        }
    }
    with override_settings(TASKS=tasks):
        assert 'jobs-badge jobs-live"' in shown(viewer, WORKERS)


def test_the_heartbeat_is_told_by_the_clock_of_the_database(viewer: Client) -> None:
    worker(silence=75.4)
    assert ">1 m 15 s ago</time>" in shown(viewer, WORKERS)


def test_the_last_heard_of_comes_first(viewer: Client) -> None:
    made = [worker(silence=silence).pk for silence in (50, 0, 100)]
    assert [made[1], made[0], made[2]] == list(listed(viewer))


def test_the_page_of_a_worker_leads_to_its_jobs(viewer: Client) -> None:
    made = worker(leases=2, queues=["mail", "a"])
    page = shown(viewer, f"{WORKERS}{made.pk}/change/")
    for lease in Lease.objects.all():
        assert page_of(lease.job_id) in page
    assert "mail, a" in page
    assert 'href="history/"' not in page


def test_a_worker_that_is_gone_leads_to_the_list(viewer: Client) -> None:
    for wrong in (uuid4(), "x", 1):
        assert 302 == viewer.get(f"{WORKERS}{wrong}/change/").status_code
