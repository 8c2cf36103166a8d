"""A job that is over its timeout says so, and what ends it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_jobs.models import Event, Lease
from django_jobs.operations.explain import Explanation, explain
from tests.worlds import add, register

pytestmark = pytest.mark.django_db


def running(timeout: float | None = None, **lease: Any) -> int:
    [job] = add("mail", state="running", attempt=1, timeout=timeout)
    worker = register(name="web", pid=7)
    until = timezone.now() + timedelta(seconds=lease.pop("seconds", 60))
    Lease.objects.create(job_id=job, worker=worker, expires_at=until, **lease)
    return job


def told(job: int) -> Explanation:
    return explain(job, database="default")


def test_one_in_its_time_runs_whatever_its_timeout():
    assert "running" == told(running(timeout=2)).verdict.situation


def test_the_timeout_is_that_of_the_run_even_where_its_worker_gave_it():
    job = running(timed_out_at=timezone.now())
    for seconds, life in ((9, 1), (2.5, 2)):
        data: Any = {"timeout": seconds}
        Event.objects.create(job_id=job, kind="timed_out", attempt=1, life=life, data=data)
    verdict = told(job).verdict
    assert "It is over its timeout of 2.5 s on web:7 and has not ended." == verdict.sentence
    assert "isolation=“process”" in str(verdict.more)


def test_without_the_event_it_is_that_of_the_job():
    verdict = told(running(timeout=30, timed_out_at=timezone.now())).verdict
    assert "It is over its timeout of 30 s on web:7 and has not ended." == verdict.sentence


def test_a_lost_worker_is_the_greater_worry():
    job = running(timeout=30, timed_out_at=timezone.now(), seconds=-1)
    assert "lost" == told(job).verdict.situation
