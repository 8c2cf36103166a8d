"""The page of one queue: how it fares, who serves it, and by how many statements."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.test import Client

from django_jobs.admin import bounded, queue_page, queues
from django_jobs.models import Job, Lease, Queue, Worker
from tests.admin.pages import JOBS, QUEUES, WORKERS, goal, page_of_queue, shown, told
from tests.operations.ended import live

pytestmark = pytest.mark.django_db


def ready(count: int, queue: str = "mail", **columns: Any) -> None:
    Job.objects.bulk_create(Job(task="a.b", queue=queue, **columns) for _ in range(count))


def serve(*names: str, **columns: Any) -> Worker:
    columns = {"name": "web-1", "pid": 7, "default_slots": 8, "capacity": 6, **columns}
    return Worker.objects.create(
        id=uuid4(), backend="default", queues=list(names) or None, version="1", **columns
    )


def test_a_queue_that_nobody_serves_names_the_command(viewer: Client) -> None:
    ready(3)
    page = shown(viewer, page_of_queue("mail"))
    assert "No live worker serves the queue “mail”." in page
    assert "jobworker --queue mail</code>" in page
    assert "No worker serves it." in page


def test_the_workers_that_serve_it_are_named_with_their_reasons(viewer: Client) -> None:
    ready(3)
    free = serve("mail")
    full = serve(name="web-2", capacity=1)
    serve("other", name="web-3")
    Lease.objects.create(job_id=live("running"), worker=full.pk, expires_at="2999-01-01T00:00Z")
    page = shown(viewer, page_of_queue("mail"))
    assert f'<a href="{WORKERS}{free.pk}/change/">web-1:7</a>' in page
    assert "could take it" in page
    assert "<code>at_capacity</code>" in page
    assert "all places are taken" in page
    assert "web-3" not in page


def test_a_long_list_of_workers_is_cut_and_said_to_be(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_jobs.admin.explained.MOST", 3)
    for number in range(5):
        serve(pid=number)
    page = shown(viewer, page_of_queue("mail"))
    assert 3 == page.count("could take it")
    assert "and 2 more" in page


def test_figures_are_those_of_this_queue_alone(viewer: Client) -> None:
    ready(3)
    ready(5, "default")
    ready(2, backend="second")
    Queue.objects.create(name="mail", slots=2)
    row = viewer.get(page_of_queue("mail")).context["row"]
    assert (3, 0, 2) == (row["queue"].ready, row["queue"].running, row["slots"])
    page = shown(viewer, page_of_queue("mail"))
    assert f'<a href="{JOBS}?state=ready&amp;queue=mail">3</a>' in page


@pytest.mark.parametrize("state", ["ready", "scheduled", "running"])
def test_a_queue_that_only_jobs_know_has_a_page(viewer: Client, state: str) -> None:
    pk = live(state)
    Job.objects.update(queue="only-jobs")
    if state == "running":
        Lease.objects.create(job_id=pk, worker=uuid4(), expires_at=Now())
    assert "only-jobs" in shown(viewer, page_of_queue("only-jobs"))


def test_there_may_be_more_queues_than_the_list_shows(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_jobs.admin.queue_figures.MOST_QUEUES", 1)
    ready(1, "a")
    ready(2, "z")
    row = viewer.get(page_of_queue("z")).context["row"]
    assert ("z", 2) == (row["queue"].name, row["queue"].ready)


def test_the_row_of_a_queue_leads_to_its_page(viewer: Client) -> None:
    row = Queue.objects.create(name="mail", backend="second")
    expected = page_of_queue("mail", "second")
    assert expected == goal(viewer.get(f"{QUEUES}{row.pk}/change/"))
    assert QUEUES == goal(viewer.get(f"{QUEUES}999999/change/"))


@pytest.mark.parametrize("query", ["", "?backend=default", "?queue=a&backend=%00"])
def test_an_address_that_names_no_queue_leads_to_the_list(viewer: Client, query: str) -> None:
    response = viewer.get(f"{QUEUES}page/{query}")
    assert QUEUES == goal(response)
    assert ["That names no queue."] == told(viewer, response)


def test_the_page_costs_few_statements(admin_client: Client, django_assert_num_queries) -> None:
    ready(1)
    for number in range(2):
        serve(pid=number)
    # session, user; three time limits with a savepoint each; figures; queue, workers, leases
    expected = 2 + 3 * 4 + 1 + 3
    with django_assert_num_queries(expected):
        shown(admin_client, page_of_queue("mail"))
    ready(50)
    for number in range(30):
        serve(pid=number)
    with django_assert_num_queries(expected):
        shown(admin_client, page_of_queue("mail"))


def slow(*_args: Any, **_options: Any) -> None:
    with bounded.time_limit("default"):
        connection.cursor().execute("SELECT pg_sleep(5)")


def test_an_explanation_that_takes_too_long_is_left_out(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(3)
    monkeypatch.setattr(bounded, "SECONDS", 0.2)
    monkeypatch.setattr(queue_page, "explain_queue", slow)
    page = shown(viewer, page_of_queue("mail"))
    assert "took too long and was stopped" in page
    assert ">3</a>" in page


def test_a_page_that_takes_too_long_is_told(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.05)
    monkeypatch.setattr(queue_page, "figures_of", slow)
    response = viewer.get(page_of_queue("mail"))
    assert QUEUES == goal(response)
    [message] = told(viewer, response)
    assert "was stopped; nothing was changed" in message


def test_a_list_or_a_question_that_takes_too_long_is_told(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.05)
    for name in ("figures", "figures_of"):
        monkeypatch.setattr(queues, name, slow)
    page = shown(operator, QUEUES)
    assert "was stopped; nothing was changed" in page
    assert "No queue is known yet" not in page
    response = operator.post(f"{QUEUES}pause/", {"backend": "default", "queue": "mail"})
    assert QUEUES == goal(response)


def test_another_fault_of_the_database_is_not_hidden(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: Any, **_options: Any) -> None:
        raise OperationalError("no such thing")

    monkeypatch.setattr(queue_page, "explain_queue", broken)
    with pytest.raises(OperationalError, match="no such thing"):
        viewer.get(page_of_queue("mail"))


def test_looking_changes_nothing(viewer: Client) -> None:
    ready(1)
    shown(viewer, page_of_queue("mail"))
    assert not Queue.objects.exists()
