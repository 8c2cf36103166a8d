"""The workers: alive or not by the database's clock, and what each holds."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client

from django_jobs.admin.health import is_served
from django_jobs.admin.queues import figures
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


@pytest.mark.parametrize(
    ("lease", "silence", "word"),
    [
        (6, 3.9, "live"), (6, 4.5, "late"), (6, 6.5, "gone"), (120, 79, "live"),
        (120, 85, "late"), (120, 121, "gone"),
    ],
)  # fmt: skip
def test_health_follows_the_workers_own_lease(
    viewer: Client, lease: float, silence: float, word: str
) -> None:
    worker(silence=silence, lease_seconds=lease)
    assert f'jobs-badge jobs-{word}"' in shown(viewer, WORKERS)


@pytest.mark.parametrize(
    ("served", "columns"),
    [
        (True, {"queues": ["a", "mail"]}),
        (True, {"queues": None}),
        (True, {"queues": None, "silence": 25}),  # late is not gone
        (True, {"queues": None, "silence": 31, "lease_seconds": 60}),
        (False, {"queues": ["a"]}),
        (False, {"queues": []}),
        (False, {"queues": None, "silence": 31}),
        (False, {"queues": None, "silence": 7, "lease_seconds": 6}),
        (False, {"queues": None, "state": "draining"}),
        (False, {"queues": None, "state": "stopped"}),
        (False, {"queues": None, "backend": "second"}),
    ],
)
def test_the_page_of_a_queue_and_that_of_a_job_agree_on_who_serves_it(
    served: bool, columns: dict[str, Any]
) -> None:
    worker(**columns)
    assert served == is_served("mail", backend="default", database="default")
    [mail] = [each for each in figures() if each.name == "mail"]
    assert served == bool(mail.workers)


def test_an_idle_worker_holds_none(viewer: Client) -> None:
    made = worker()
    assert ">none<" in shown(viewer, f"{WORKERS}{made.pk}/change/")


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
