"""A real worker obeys a pause at its next claim, and a resume at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from django_jobs.models import Job, Worker
from django_jobs.operations.act import Actor
from django_jobs.operations.pause import pause
from django_jobs.operations.resume import resume
from tests.processes import JobWorkers, Process, wait_for
from tests.tasks import nap, ok
from tests.worker.fleet import Fleet

ANA = Actor(name="ana", via="api")

pytestmark = pytest.mark.subprocess


def jobs(state: str) -> int:
    return Job.objects.filter(state=state).count()


def idle(worker: Process) -> None:
    wait_for(lambda: Worker.objects.filter(idle=True, pid=worker.pid).exists(), what=worker.log())


def test_what_runs_goes_on_and_nothing_more_is_claimed_until_the_resume(jobworker: JobWorkers):
    for _ in range(20):
        nap.enqueue(0.3)
    worker = jobworker("--max-in-flight", "2", "--queue", "default", "--queue", "a")
    wait_for(lambda: jobs("running") == 2, what=worker.log())
    pause("default", backend="default", actor=ANA, reason="bad feed", database="default")
    last = Job.objects.exclude(state="ready").count()
    wait_for(lambda: not jobs("running"), what="what runs ends")
    other = ok.using(queue_name="a").enqueue(1)
    wait_for(lambda: Job.objects.get(pk=other.id).state == "succeeded", what="another queue")
    idle(worker)
    assert last == jobs("succeeded") - 1
    assert 20 - last == jobs("ready")
    begun = Job.objects.filter(state="succeeded").count()
    assert resume("default", backend="default", actor=ANA, database="default")
    wait_for(lambda: jobs("succeeded") > begun, seconds=3, what="the bell wakes it")
    wait_for(lambda: jobs("succeeded") == 21, what=worker.log())


def test_a_pause_with_an_end_ends_by_itself(jobworker: JobWorkers):
    worker = jobworker("--queue", "default")
    idle(worker)
    until = Worker.objects.values_list(Now(), flat=True).get() + timedelta(seconds=2)
    pause("default", backend="default", actor=ANA, reason="short", until=until, database="default")
    job = ok.enqueue(1)
    wait_for(lambda: jobs("succeeded") == 1, seconds=15, what=worker.log())
    started = Job.objects.get(pk=job.id).started_at
    assert started is not None
    assert until <= started


def test_a_loop_that_stands_still_is_told_by_its_row_although_the_renewer_beats(fleet: Fleet):
    """Its claim waits for a lock that somebody holds on the queues."""
    worker = fleet.idle("--lease", "3", "--queue", "default")
    blocker = fleet.connect()
    blocker.autocommit = False
    blocker.execute("LOCK TABLE django_jobs_queue IN ACCESS EXCLUSIVE MODE")
    fleet.put("tests.tasks.ok")
    fleet.ring()
    silent = "SELECT loop_at < clock_timestamp() - interval '2.5 s' FROM django_jobs_worker"
    fleet.wait(silent)
    assert fleet.value(
        "SELECT seen_at > clock_timestamp() - interval '2 s' FROM django_jobs_worker"
    )
    blocker.rollback()
    blocker.close()
    fleet.wait_for_all()
    fleet.wait(f"SELECT NOT ({silent})")
    assert 0 == fleet.stop(worker)


def test_a_loop_that_sleeps_is_not_silent(fleet: Fleet):
    """It may sleep for longer than three heartbeats."""
    worker = fleet.idle("--lease", "2", "--queue", "default")
    fleet.wait("SELECT clock_timestamp() > started_at + interval '3 s' FROM django_jobs_worker")
    assert fleet.value("SELECT seen_at - loop_at < interval '0.5 s' FROM django_jobs_worker")
    assert 0 == fleet.stop(worker)
