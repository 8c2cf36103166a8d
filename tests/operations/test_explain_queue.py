"""``explain_queue`` says how a queue fares; ``never`` that no worker could ever take a job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_jobs.models import Event, Job, Queue
from django_jobs.operations.explain import explain_queue
from django_jobs.operations.explain import live as module
from django_jobs.operations.explain.explanation import QueueExplanation, Situation
from django_jobs.operations.foresee import never
from django_jobs.placement import Needs, Reason, Requires
from tests.operations.test_explain import ago, held, one, worker
from tests.worlds import add

pytestmark = pytest.mark.django_db


def told(name: str = "mail") -> QueueExplanation:
    return explain_queue("default", name, database="default")


def test_a_queue_that_nobody_serves_says_so_and_how_to_start_a_worker():
    worker(queues=["other"])
    worker(seen_at=ago(60))
    verdict = told().verdict
    assert Situation.QUEUE_NOT_SERVED == verdict.situation
    assert "No live worker serves the queue “mail”." == verdict.sentence
    assert "python manage.py jobworker --queue mail" == verdict.command


def test_a_paused_queue_says_by_whom_why_since_and_until():
    worker()
    since, until = ago(60), ago(-60)
    Queue.objects.create(
        name="mail", paused=True, paused_by="ana", paused_reason="bad feed", paused_at=since,
        paused_until=until,
    )  # fmt: skip
    found = told()
    assert found.pause is not None
    assert ("ana", "bad feed", since, until) == (
        found.pause.by, found.pause.reason, found.pause.since, found.pause.until,
    )  # fmt: skip
    assert "The queue “mail” is paused by ana (“bad feed”)." == found.verdict.sentence
    assert ("resume", None) == (found.verdict.remedy, found.verdict.then)


def test_a_paused_queue_says_what_would_block_next():
    Queue.objects.create(name="mail", paused=True)
    assert "Even after resuming it would wait: No live worker" in str(told().verdict.then)


def test_a_queue_is_at_capacity_when_all_its_workers_are():
    held(worker("a", capacity=1))
    assert Situation.AT_CAPACITY == told().verdict.situation
    worker("b", queues=["mail"])
    assert "Ready: b:1 has room for it." == told().verdict.sentence
    assert told().pause is None


def test_only_the_workers_that_serve_it_are_listed_each_with_its_reason():
    worker("a", queues=["other"])
    worker("b", capacity=0)
    worker("c", seen_at=ago(25))
    assert {"b": Reason.AT_CAPACITY, "c": "late"} == {
        line.host: line.reason for line in told().hosts
    }


def test_ready_jobs_and_the_wait_of_the_oldest_are_told():
    add("other")
    assert (0, False, None) == (told().ready, told().is_more, told().oldest_seconds)
    add("mail", 2)
    requeued = one(life=2)
    moved = {"enqueued_at": ago(500)}
    Job.objects.filter(queue="mail").update(**moved)
    Event.objects.create(job_id=requeued, kind="requeued", attempt=0, life=2, at=ago(10))
    later = one(run_after=ago(100))
    Job.objects.filter(pk=later).update(**moved)
    found = told()
    assert (4, False) == (found.ready, found.is_more)
    assert 500 <= (found.oldest_seconds or 0) < 510
    Job.objects.exclude(pk__in=[requeued, later]).update(state="waiting")
    assert 100 <= (told().oldest_seconds or 0) < 110
    Job.objects.filter(pk=later).update(state="waiting")
    assert 10 <= (told().oldest_seconds or 0) < 20


def test_ready_jobs_are_counted_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(module, "READY_COUNTED", 3)
    add("mail", 2)
    assert (2, False) == (told().ready, told().is_more)
    add("mail", 5)
    assert (3, True) == (told().ready, told().is_more)


def test_a_queue_takes_a_few_statements():
    held(worker())
    with CaptureQueriesContext(connection) as caught:
        told()
    assert len(caught) == 3


# foresee


def foreseen(queue: str = "mail", task: str | None = None, **asked: Any) -> str | None:
    needs = Needs(requires=Requires(**asked), task=task)
    return never(needs, queue, backend="default", database="default")


def test_nothing_is_foreseen_while_no_worker_is_live():
    worker(seen_at=ago(25), queues=["other"])
    worker(state="draining", queues=["other"])
    worker(backend="other", queues=["other"])
    assert foreseen(labels={"gpu"}) is None


def test_a_queue_that_no_live_worker_serves_is_foreseen():
    worker(queues=["other"])
    worker(seen_at=ago(60))
    assert "No live worker serves the queue 'mail'" in str(foreseen())
    assert foreseen("other") is None


def test_a_job_that_fits_no_live_worker_is_foreseen():
    worker("a", labels=["ssd"], resources={"memory_mb": 100})
    worker("b", labels=["gpu"], queues=["other"])
    told = str(foreseen(labels={"gpu"}, resources={"memory_mb": 6000}))
    assert "fits a job that needs gpu, memory_mb 6000" in told
    assert "a:1 (label: gpu)" in told
    assert foreseen(resources={"memory_mb": 100}) is None
    assert foreseen("other", labels={"gpu"}) is None


def test_what_is_only_so_at_the_moment_is_not_foreseen():
    held(worker(capacity=1))
    Queue.objects.create(name="mail", paused=True)
    assert foreseen() is None


def test_to_foresee_takes_one_statement():
    for number in range(3):
        worker(f"web-{number}")
    with CaptureQueriesContext(connection) as caught:
        foreseen(labels={"gpu"})
    assert len(caught) == 1


def test_the_clock_of_the_host_decides_nothing(monkeypatch):
    worker(queues=["mail"])
    later = timezone.now() + timedelta(days=9)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert foreseen() is None
    assert Situation.READY == told().verdict.situation
