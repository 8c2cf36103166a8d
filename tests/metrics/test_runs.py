"""Runs are counted once, after the commit, in a bounded number of series."""

from __future__ import annotations

import logging
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.utils import timezone

from django_jobs import task, watchers
from django_jobs.metrics import runs
from django_jobs.metrics.runs import MOST_QUEUES, OUTCOMES, RunMeter
from django_jobs.models import Job, Lease
from django_jobs.states import FINAL
from django_jobs.testing import running_worker
from django_jobs.watchers import Ending
from tests import tasks
from tests.metrics.samples import Change, sample, series
from tests.operations.desk import desks, jobs, lapse
from tests.processes import wait_for
from tests.worker.embedded import row, wait_for_ends, wait_for_state

begun, may_end = Event(), Event()


@task
def hold() -> None:
    begun.set()
    may_end.wait(20)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    begun.clear()
    may_end.clear()


def run(*results: Any) -> None:
    with running_worker():
        wait_for_ends(*results)


def test_every_final_state_is_an_outcome():
    assert set(FINAL) <= set(OUTCOMES)


@pytest.mark.django_db(transaction=True)
def test_each_run_is_counted_under_its_queue_and_how_it_ended():
    change = Change("django_jobs_total")
    done = [
        tasks.ok.using(queue_name="mail").enqueue(),
        tasks.boom_dropped.using(queue_name="mail").enqueue(),
        tasks.cancel_itself.using(queue_name="a").enqueue("enough"),
        tasks.flaky.using(queue_name="a").enqueue(1),
    ]
    run(*done)
    assert {"mail": 2, "a": 3} == change.by("queue")
    assert {"succeeded": 2, "dropped": 1, "cancelled": 1, "failed": 1} == change.by("outcome")


@pytest.mark.django_db(transaction=True)
def test_a_retry_and_a_snooze_are_told_apart(tmp_path):
    change = Change("django_jobs_total")
    run(tasks.snooze_once.enqueue(str(tmp_path / "been")))
    assert {"snoozed": 1, "succeeded": 1} == change.by("outcome")


@pytest.mark.django_db(transaction=True)
def test_a_run_is_counted_when_its_outcome_is_committed_and_not_before():
    change = Change("django_jobs_total")
    with running_worker():
        result = hold.enqueue()
        assert begun.wait(10)
        assert {} == change.by("outcome")
        may_end.set()
        wait_for_ends(result)
        wait_for(lambda: {"succeeded": 1} == change.by("outcome"))


@pytest.mark.django_db(transaction=True)
def test_a_run_that_lost_its_lease_counts_nothing():
    total, took = Change("django_jobs_total"), Change("django_jobs_run_seconds_count")
    with running_worker() as worker:
        result = hold.enqueue()
        assert begun.wait(10)
        Lease.objects.get(job_id=int(result.id)).delete()
        Job.objects.filter(pk=int(result.id)).update(state="cancelled", finished_at=timezone.now())
        may_end.set()
        wait_for(lambda: worker.loop.tally.lost == 1)
    assert ({}, 0) == (total.by("outcome"), took.total())


@pytest.mark.django_db(transaction=True)
def test_what_a_drain_hands_back_is_counted_as_such():
    change = Change("django_jobs_total")
    with running_worker(drain_seconds=0.0):
        result = hold.enqueue()
        assert begun.wait(10)
    may_end.set()
    assert {"handed_back": 1} == change.by("outcome")
    assert "ready" == row(result).state


@pytest.mark.django_db(transaction=True)
def test_jobs_that_end_without_a_run_are_counted():
    change = Change("django_jobs_total")
    with running_worker(max_in_flight=1):
        busy = hold.using(queue_name="mail").enqueue()
        assert begun.wait(10)
        [late] = jobs(1, queue="b", expires_at=timezone.now() - timedelta(seconds=1))
        wait_for(lambda: Job.objects.get(pk=late).state == "expired")
        wait_for(lambda: {"expired": 1} == change.by("outcome"))
        assert {"b": 1} == change.by("queue")
        may_end.set()
        wait_for_ends(busy)


@pytest.mark.django_db(transaction=True)
def test_a_job_that_its_parent_ends_is_counted():
    change = Change("django_jobs_total")
    parent = tasks.boom_dropped.using(queue_name="a").enqueue()
    child = tasks.ok.using(queue_name="b", depends_on=[parent]).enqueue()
    run(child)
    assert {"dropped": 1, "cancelled": 1} == change.by("outcome")
    assert {"a": 1, "b": 1} == change.by("queue")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("attempts", "outcome", "state"), [(3, "rescued", "scheduled"), (1, "dead", "dead")]
)
def test_a_lost_worker_is_counted_by_the_one_that_notices(attempts: int, outcome: str, state: str):
    [pk] = jobs(1, max_attempts=attempts, backoff="constant", backoff_base=600.0)
    with desks("one") as [desk]:
        [claimed] = desk.claim()
        lapse(claimed.lease)
    change = Change("django_jobs_total")
    with running_worker():
        wait_for(lambda: Job.objects.get(pk=pk).state == state)
        wait_for(lambda: {outcome: 1} == change.by("outcome"))


@pytest.mark.django_db(transaction=True)
def test_the_time_of_a_run_and_the_wait_for_the_first_attempt_are_measured():
    ran, waited = Change("django_jobs_run_seconds_sum"), Change("django_jobs_wait_seconds_sum")
    counts = Change("django_jobs_run_seconds_count"), Change("django_jobs_wait_seconds_count")
    hour = timezone.now() - timedelta(hours=1)
    [old] = jobs(1, queue="mail", task=tasks.ok.module_path, enqueued_at=hour)
    [due] = jobs(
        1, queue="mail", task=tasks.ok.module_path, enqueued_at=hour, run_after=timezone.now()
    )
    result = tasks.nap.using(queue_name="mail").enqueue(0.3)
    with running_worker():
        wait_for_ends(result)
        wait_for(lambda: not Job.objects.live().exists())
        wait_for(lambda: (3, 3) == tuple(each.total() for each in counts))
    assert {old, due} < set(Job.objects.filter(state="succeeded").values_list("pk", flat=True))
    assert 0.3 <= ran.total() < 60
    assert 3600 <= waited.total() < 3660  # the second has waited since its time alone


@pytest.mark.django_db(transaction=True)
def test_a_later_attempt_is_no_wait_for_a_place():
    change = Change("django_jobs_wait_seconds_count")
    run(tasks.flaky.enqueue(2))
    assert 1 == change.total()


@pytest.mark.django_db(transaction=True)
def test_a_metric_that_fails_touches_no_job_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(ending: Ending) -> None:
        raise RuntimeError("no disk")

    monkeypatch.setattr(runs.RUNS, "ended", broken)
    caplog.set_level(logging.ERROR, "django_jobs.worker")
    with running_worker() as worker:
        assert ["succeeded"] * 3 == wait_for_ends(*[tasks.ok.enqueue() for _ in range(3)])
        wait_for(lambda: worker.loop.tally.succeeded == 3)
    [told] = [each for each in caplog.records if "metric" in each.getMessage()]
    assert "no disk" in str(told.exc_info and told.exc_info[1])


def test_ten_thousand_queues_make_a_bounded_number_of_series():
    meter = RunMeter()
    known = {labels for _, labels in series("django_jobs_total")}
    for number in range(10_000):
        meter.ended(Ending(f"queue-{number}", "succeeded"))
    made = {dict(labels)["queue"] for _, labels in series("django_jobs_total") if labels}
    made -= {dict(labels)["queue"] for labels in known if labels}
    try:
        assert MOST_QUEUES + 1 >= len(made)
        assert 10_000 - MOST_QUEUES <= (
            sample("django_jobs_total", queue="other", outcome="succeeded") or 0
        )
    finally:
        forget(made)


def forget(queues: set[str]) -> None:
    """Take series away that other tests would see."""
    for queue in queues:
        for outcome in OUTCOMES:
            runs.TOTAL.remove(queue, outcome)
        runs.RUN_SECONDS.remove(queue)
        runs.WAIT_SECONDS.remove(queue)


@pytest.mark.django_db(transaction=True)
def test_no_label_and_no_text_holds_a_secret_or_an_id():
    result = tasks.keep_secret.enqueue(password="S3CRET")
    run(result)
    text = str(series("django_jobs"))
    assert "S3CRET" not in text
    assert str(tasks.keep_secret.module_path) not in text
    labels = {name for _, pairs in series("django_jobs") for name, _ in pairs}
    assert {"queue", "outcome", "version", "le"} >= labels


@pytest.mark.django_db(transaction=True)
def test_each_series_of_a_served_queue_is_there_before_anything_ran():
    with running_worker() as worker:
        wait_for(lambda: worker.loop.found_nothing)
        for outcome in OUTCOMES:
            for queue in worker.options.queue_names:
                assert sample("django_jobs_total", queue=queue, outcome=outcome) is not None


@pytest.mark.django_db(transaction=True)
def test_workers_of_one_process_are_summed_and_a_stopped_one_leaves():
    names = ("django_jobs_worker_in_flight", "django_jobs_worker_capacity")
    assert (0, 0) == tuple(map(sample, names))
    with running_worker(max_in_flight=2):
        with running_worker(max_in_flight=3):
            wait_for(lambda: sample(names[1]) == 5)
            first = hold.enqueue()
            wait_for_state(first, "running")
            wait_for(lambda: sample(names[0]) == 1)
            assert 2 == sum(value for _, value in series("django_jobs_worker_info").items())
            may_end.set()
            wait_for_ends(first)
        assert (0, 2) == tuple(map(sample, names))
    assert (0, 0) == tuple(map(sample, names))


def test_who_is_told_twice_hears_once():
    assert len(set(map(id, watchers._watchers))) == len(watchers._watchers)
    before = list(watchers._watchers)
    watchers.watch(before[0])
    assert before == watchers._watchers
