"""Whatever a task or a receiver raises, its job ends and the worker goes on."""

from __future__ import annotations

import pytest

from tests.worker.fleet import Fleet
from tests.worker.tasks import NASTY

pytestmark = pytest.mark.subprocess


def test_what_no_code_expects_to_be_raised_is_a_failed_attempt(fleet: Fleet):
    kinds = list(NASTY)
    sync = {
        kind: fleet.put_one("tests.worker.tasks.nasty", kind, max_attempts=1) for kind in kinds
    }
    coroutines = {
        kind: fleet.put_one("tests.worker.tasks.anasty", kind, max_attempts=1)
        for kind in kinds
        if kind != "async exception"
    }
    worker = fleet.started("--max-in-flight", "3")
    fleet.wait("SELECT bool_and(state = 'dead') FROM django_jobs_job", seconds=40)
    after = [
        *fleet.put("tests.tasks.mark", "after", count=6),
        *fleet.put("tests.tasks.anap", 0.01, count=6),
    ]
    fleet.ring()
    fleet.wait(
        "SELECT bool_and(state = 'succeeded') FROM django_jobs_job WHERE id = ANY (%s)", after
    )
    for kind, pk in [*sync.items(), *coroutines.items()]:
        assert (1, ["dead"]) == (fleet.job(pk).attempt, fleet.events(pk)), kind
    reasons = fleet.rows("SELECT DISTINCT data::json ->> 'reason' FROM django_jobs_event")
    assert set(reasons) <= {"attempts", "gave_up"}, "a fault of the worker's own is another"
    errors = {kind: str(fleet.job(pk).error) for kind, pk in sync.items()}
    assert errors["SystemExit"].startswith("SystemExit: 1")
    assert errors["Stubborn"].startswith("Stubborn")
    assert all(len(error) < 40_000 for error in errors.values())
    classes = fleet.rows("SELECT data::json ->> 'class' FROM django_jobs_event")
    assert {"asyncio.exceptions.CancelledError", "builtins.GeneratorExit"} <= {
        name if "." in name else f"builtins.{name}" for name in classes
    }
    largest = fleet.value("SELECT max(length(data)) FROM django_jobs_event")
    assert largest < 200_000
    assert 0 == fleet.stop(worker)
    assert fleet.nothing_held()


def test_a_run_that_breaks_before_its_task_is_called_still_ends(fleet: Fleet):
    broken = fleet.put("tests.tasks.ok", count=8, kwargs="not json")
    worker = fleet.started("--max-in-flight", "2")
    fleet.wait("SELECT bool_and(state = 'dead') FROM django_jobs_job")
    pk = fleet.put_one("tests.tasks.mark", "after")
    fleet.wait_for_state(pk, "succeeded")
    assert {"dead"} == {fleet.events(each)[-1] for each in broken}
    assert 0 == fleet.stop(worker)
    assert fleet.nothing_held()


def test_receivers_that_raise_change_no_outcome(fleet: Fleet):
    good = fleet.put_one("tests.worker.tasks.write", "a")
    bad = fleet.put_one("tests.worker.tasks.fail", max_attempts=2)
    worker = fleet.started(BREAK_SIGNALS="1")
    fleet.wait_for_state(good, "succeeded")
    fleet.wait_for_state(bad, "dead")
    assert (["failed", "dead"], 2) == (fleet.events(bad), fleet.job(bad).attempt)
    assert 0 == fleet.stop(worker)


def test_retries_of_jobs_that_fail_together_are_spread(fleet: Fleet):
    fleet.put(
        "tests.worker.tasks.fail",
        count=150,
        backoff_base=1000,
        backoff_cap=1000,
        backoff_jitter=0.25,
    )
    at_the_cap = fleet.put(
        "tests.worker.tasks.fail",
        count=150,
        backoff="exponential",
        backoff_base=10,
        backoff_cap=1000,
        backoff_jitter=0.25,
        attempt=8,
        max_attempts=20,
    )
    worker = fleet.started("--max-in-flight", "50")
    fleet.wait_for_all("scheduled")
    assert 0 == fleet.stop(worker)
    spread = (
        "SELECT min(s), max(s) FROM (SELECT extract(epoch FROM j.run_after - e.at) AS s"
        " FROM django_jobs_job j JOIN django_jobs_event e ON e.job_id = j.id"
        " WHERE (j.id = ANY (%s)) = %s) t"
    )
    for at_cap in (False, True):
        least, most = fleet.value(spread, at_the_cap, at_cap)
        assert 749 <= least < 800, at_cap
        assert 1200 < most <= 1251, at_cap
