"""The queues: all that anything names, each with its figures."""

from __future__ import annotations

from datetime import timedelta
from html import escape
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.test import Client, override_settings

from django_jobs.admin import queue_figures
from django_jobs.admin.queue_figures import Figures, figures
from django_jobs.models import Event, Job, Lease, Queue, Worker
from django_jobs.operations.requeue import requeue
from tests.admin.pages import JOBS, LISTS, QUEUES, page_of_queue, shown
from tests.operations.ended import ANA, ended, live

pytestmark = pytest.mark.django_db


def one(name: str) -> Figures:
    [found] = [each for each in figures() if each.name == name]
    return found


def ready(count: int, queue: str = "mail", **columns: Any) -> None:
    Job.objects.bulk_create(Job(task="a.b", queue=queue, **columns) for _ in range(count))


def serve(*names: str, **columns: Any) -> Worker:
    columns = {"backend": "default", "name": "w", "pid": 1, "version": "1", **columns}
    return Worker.objects.create(id=uuid4(), queues=list(names) or None, capacity=6, **columns)


def test_queues_of_the_settings_are_there_before_any_job(viewer: Client) -> None:
    names = [each.name for each in figures()]
    assert {"default", "imports", "photos", "mail"} <= set(names)
    page = shown(viewer, QUEUES)
    assert f'href="{escape(page_of_queue("mail"))}"' in page
    assert f'href="{JOBS}?state=ready&amp;queue=mail"' in page


def test_queues_that_only_rows_or_jobs_name_are_there() -> None:
    Queue.objects.create(name="said")
    ready(1, "new")
    ready(1, "other", backend="second")
    running = live("running")
    Job.objects.filter(pk=running).update(queue="held")
    Lease.objects.create(job_id=running, worker=uuid4(), expires_at=Now())
    found = {(each.backend, each.name) for each in figures()}
    expected = {("default", "said"), ("default", "new"), ("second", "other"), ("default", "held")}
    assert expected <= found
    assert (0, 1) == (one("held").ready, one("held").running)


def test_only_ready_jobs_wait() -> None:
    ready(3)
    ended(1, queue="mail")
    ready(1, state="scheduled", run_after=Now())
    assert (3, 0, "3") == (one("mail").ready, one("mail").running, one("mail").waiting)
    assert one("mail").waits
    assert "" == one("imports").waits


def age(name: str) -> float:
    found = one(name)
    assert found.oldest is not None
    return (found.now - found.oldest).total_seconds()


def test_a_job_waits_since_it_was_enqueued_due_or_requeued() -> None:
    ready(1, enqueued_at=Now() - timedelta(seconds=500))
    assert 500 == pytest.approx(age("mail"), abs=5)
    Job.objects.update(run_after=Now() - timedelta(seconds=300))
    assert 300 == pytest.approx(age("mail"), abs=5)
    Job.objects.all().delete()
    made = ended(1, queue="mail", enqueued_at=Now() - timedelta(seconds=500))
    requeue(made, actor=ANA, reason="", database="default")
    assert 0 == pytest.approx(age("mail"), abs=5)
    Event.objects.filter(kind="requeued").delete()  # as by hand: the enqueue is what is left
    assert 500 == pytest.approx(age("mail"), abs=5)


def test_jobs_are_counted_no_further_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_figures, "MOST", 5)
    ready(9)
    assert (6, "10k+") == (one("mail").ready, one("mail").waiting)


def test_a_queue_that_nobody_serves_is_named() -> None:
    assert "jobs-ok" in one("mail").health  # nothing waits
    ready(1)
    serve("imports")
    serve("mail", backend="second")
    serve("mail", state="draining")
    serve("mail", loop_at="2020-01-01T00:00Z")
    assert (0, True) == (one("mail").workers, "jobs-unserved" in one("mail").health)
    serve("mail", "imports")
    serve()  # every queue
    assert (2, True) == (one("mail").workers, "jobs-ok" in one("mail").health)
    Worker.objects.update(seen_at="2020-01-01T00:00Z")
    assert 0 == one("mail").workers


def test_an_operators_slots_go_before_the_settings(viewer: Client) -> None:
    def slots() -> Any:
        rows = viewer.get(QUEUES).context["queues"]
        return {row["queue"].name: row["slots"] for row in rows}["mail"]

    assert 4 == slots()
    page = shown(viewer, QUEUES)
    assert '6 <span class="quiet"' in page  # of the queues for which nothing is said
    Queue.objects.create(name="mail", slots=0)
    assert 0 == slots()


@pytest.mark.parametrize(
    "tasks",
    [
        {},
        {"default": {"BACKEND": "nowhere.Backend"}},
        {"default": {"BACKEND": "django_jobs.backend.JobsBackend", "QUEUES": 5}},
        {"default": {"BACKEND": "django_jobs.backend.JobsBackend", "OPTIONS": {"queues": 5}}},
        {"default": {"BACKEND": "django_jobs.backend.JobsBackend", "OPTIONS": {"database": "no"}}},
        {
            "default": {
                "BACKEND": "django_jobs.backend.JobsBackend",
                "OPTIONS": {"lease_seconds": 0},
            }
        },
    ],
)
@pytest.mark.parametrize("address", [*LISTS, page_of_queue("mail")])
def test_wrong_settings_are_no_error_of_a_page(
    viewer: Client, tasks: dict[str, Any], address: str
) -> None:
    ready(1)
    serve()
    with override_settings(TASKS=tasks):
        shown(viewer, address)


def test_nothing_known_is_said_in_words(viewer: Client) -> None:
    with override_settings(TASKS={}):
        assert "No queue is known yet" in shown(viewer, QUEUES)
