"""The workers: alive or not by the database's clock, and what each holds."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client

from django_jobs.admin.queue_figures import figures
from django_jobs.models import Lease, Worker
from django_jobs.operations.explain import explain_queue
from django_jobs.operations.explain.explanation import Situation
from tests.admin.pages import WORKERS, page_of, shown
from tests.operations.ended import live

pytestmark = pytest.mark.django_db


def worker(
    *, silence: float = 0, loop_silence: float = 0, leases: int = 0, **columns: Any
) -> Worker:
    made = Worker.objects.create(
        **{
            "id": uuid4(), "backend": "default", "name": "web", "pid": 7, "version": "1",
            "capacity": 6, **columns,
        }
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_jobs_worker SET seen_at = statement_timestamp() - %s * interval '1 s',"
            " loop_at = statement_timestamp() - %s * interval '1 s' WHERE id = %s",
            [silence, loop_silence, made.pk],
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
    ("renew", "silence", "word"),
    [
        (2, 3.9, "live"), (2, 4.5, "late"), (2, 6.5, "gone"), (40, 79, "live"),
        (40, 85, "late"), (40, 121, "gone"),
    ],
)  # fmt: skip
def test_health_follows_the_workers_own_heartbeat(
    viewer: Client, renew: float, silence: float, word: str
) -> None:
    worker(silence=silence, renew_seconds=renew)
    assert f'jobs-badge jobs-{word}"' in shown(viewer, WORKERS)


@pytest.mark.parametrize(
    ("served", "columns"),
    [
        (True, {"queues": ["a", "mail"]}),
        (True, {"queues": None}),
        (True, {"queues": None, "silence": 19}),
        (True, {"queues": None, "silence": 31, "renew_seconds": 20}),
        (False, {"queues": None, "silence": 25}),  # one that is late serves nobody
        (False, {"queues": None, "loop_silence": 25}),
        (False, {"queues": ["a"]}),
        (False, {"queues": []}),
        (False, {"queues": None, "silence": 31}),
        (False, {"queues": None, "silence": 7, "renew_seconds": 2}),
        (False, {"queues": None, "state": "draining"}),
        (False, {"queues": None, "state": "stopped"}),
        (False, {"queues": None, "backend": "second"}),
    ],
)
def test_the_list_of_queues_and_the_page_of_one_agree_on_who_serves_it(
    served: bool, columns: dict[str, Any]
) -> None:
    worker(**columns)
    said = explain_queue("default", "mail", database="default").verdict.situation
    assert served == (said != Situation.QUEUE_NOT_SERVED)
    [mail] = [each for each in figures() if each.name == "mail"]
    assert served == bool(mail.workers)


def test_a_worker_whose_loop_stands_still_is_not_live(viewer: Client) -> None:
    worker(loop_silence=25)
    page = shown(viewer, WORKERS)
    assert 'jobs-badge jobs-late"' in page
    assert ">25 s ago</time>" in page


def test_what_a_worker_offers_is_shown(viewer: Client) -> None:
    made = worker(
        labels=["os:linux", "gpu"], resources={"memory_mb": 8000, "cpus": 1.5}, aliases=["vm-7"]
    )
    offers = ("gpu, os:linux", "cpus 1.5, memory_mb 8000")
    assert "; ".join(offers) in shown(viewer, WORKERS)
    page = shown(viewer, f"{WORKERS}{made.pk}/change/")
    for text in (*offers, "web, vm-7"):
        assert text in page


@pytest.mark.parametrize("resources", [[], "x", 1, {"a": None}, {"a": "b"}, {"a": {}}])
def test_resources_of_another_version_are_shown_as_they_are(
    viewer: Client, resources: Any
) -> None:
    made = worker(resources=resources)
    shown(viewer, WORKERS)
    shown(viewer, f"{WORKERS}{made.pk}/change/")


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
