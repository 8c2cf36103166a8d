"""Scheduled jobs become ready at their time by the database's clock, not before."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from django_jobs.models import Job, Worker
from django_jobs.operations.promote import promote
from tests.operations.desk import Desk, job_row, jobs

pytestmark = pytest.mark.django_db(transaction=True)


def promoted(desk: Desk) -> int:
    return promote(worker=desk.id, database=desk.database)


def scheduled(count: int = 1, *, seconds: float) -> list[int]:
    made = jobs(count)
    due = Now() + timedelta(seconds=seconds)
    Job.objects.filter(pk__in=made).update(state="scheduled", run_after=due)
    return made


def test_only_what_is_due_is_promoted(pair: list[Desk]):
    one, _ = pair
    [late] = scheduled(seconds=-1)
    [early] = scheduled(seconds=60)
    assert 1 == promoted(one)
    assert ("ready", "scheduled") == (job_row(late).state, job_row(early).state)


def test_two_sweepers_promote_each_job_once_and_wait_for_nobody(pair: list[Desk]):
    one, two = pair
    scheduled(5, seconds=-1)
    with one.open().transaction():
        assert 5 == promoted(one)
        assert 0 == promoted(two)
    assert 5 == Job.objects.filter(state="ready").count()


def test_a_job_that_was_taken_meanwhile_is_not_set_back(pair: list[Desk]):
    one, two = pair
    [pk] = scheduled(seconds=-1)
    assert 1 == promoted(one)
    [job] = one.claim()
    assert 0 == promoted(two)
    assert (pk, "running") == (job.id, job_row(pk).state)


def test_a_promotion_rings_for_another_sleeper_only_and_once_a_queue(
    pair: list[Desk], second_connection
):
    one, two = pair
    second_connection.ensure_connection()
    listener = second_connection.connection
    listener.autocommit = True
    listener.execute("LISTEN django_jobs")
    scheduled(5, seconds=-1)
    promoted(one)
    assert [] == list(listener.notifies(timeout=0.1)), "nobody sleeps"
    Worker.objects.filter(pk=one.id).update(idle=True)
    scheduled(5, seconds=-1)
    promoted(one)
    assert [] == list(listener.notifies(timeout=0.1)), "the sweeper's own worker looks itself"
    Worker.objects.filter(pk=two.id).update(idle=True)
    scheduled(5, seconds=-1)
    promoted(one)
    [notice] = listener.notifies(timeout=1, stop_after=5)
    assert "default default" == notice.payload
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_worker SET seen_at = now() - interval '1 minute'")
    scheduled(5, seconds=-1)
    promoted(one)
    assert [] == list(listener.notifies(timeout=0.1)), "the sleeper is dead"
