"""A thread that cannot be ended keeps what it holds until its process is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worker.fleet import LEASE, Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
TIMEOUT, GRACE = 0.8, 0.7
SLOW = ("sleep_an_hour", "wait_for_a_byte")
KEY: dict[str, Any] = {"limit_key": "customer:7", "limit_size": 1}


def seconds_since_the_start(fleet: Fleet, pk: int, kind: str) -> float:
    return float(
        fleet.value(
            "SELECT extract(epoch FROM e.at - m.at) FROM django_jobs_event e"
            " JOIN ledger_mark m ON m.job = e.job_id"
            " WHERE e.job_id = %s AND e.kind = %s ORDER BY m.id LIMIT 1",
            pk,
            kind,
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("slow", SLOW)
def test_it_is_told_in_time_and_nothing_runs_beside_it(fleet: Fleet, slow: str):
    """Its place, its lease and its permit are kept: seven of eight places go on."""
    options = fleet.settings(grace_seconds=GRACE)
    pk = fleet.put_one(f"tests.worker.late_tasks.{slow}", "a", timeout=TIMEOUT, **KEY)
    worker = fleet.started("--max-in-flight", "8", **options)
    fleet.wait_for_run("a")
    [other] = fleet.put("tests.tasks.mark", "b", **KEY)
    worker.wait_for_log("its place is stuck")
    assert seconds_since_the_start(fleet, pk, "timed_out") < TIMEOUT + 1
    free = fleet.put("tests.tasks.ok", 1, count=20)
    for each in free:
        fleet.wait_for_state(each, "succeeded")
    time.sleep(1.5 * LEASE)  # long enough for a lease that nobody renews to lapse
    assert ("running", ["timed_out"]) == (fleet.job(pk).state, fleet.events(pk))
    assert (1, 0, "blocked") == (fleet.ran("a"), fleet.ran("b"), fleet.job(other).state)
    assert 1 == worker.log().count("its place is stuck")
    assert worker.popen.poll() is None
    assert 0 == fleet.stop(worker)
    assert ["timed_out", "failed"] == fleet.events(pk)


def test_with_a_quarter_of_the_places_stuck_the_worker_finishes_the_rest_and_leaves(
    fleet: Fleet, end: End
):
    options = fleet.settings(grace_seconds=GRACE)
    first, second = (
        fleet.put_one(f"tests.worker.late_tasks.{slow}", slow, timeout=TIMEOUT, **KEY | other)
        for slow, other in zip(SLOW, ({}, {"limit_key": "customer:8"}), strict=True)
    )
    go = end()
    rest = fleet.put("tests.worker.tasks.until", "rest", str(go), count=3)
    waits = fleet.put("tests.tasks.mark", "waits", **KEY)
    worker = fleet.started("--max-in-flight", "8", **options)
    worker.wait_for_log("2 of 8 places are stuck: draining")
    fleet.wait("SELECT state = 'draining' FROM django_jobs_worker")
    later = fleet.put_one("tests.tasks.ok")
    go.touch()
    assert 70 == worker.wait()
    assert {"succeeded"} == {fleet.job(pk).state for pk in rest}
    assert ("ready", 0) == (fleet.job(later).state, fleet.ran("waits"))
    for pk in (first, second):
        assert (["timed_out", "failed"], 1) == (fleet.events(pk), fleet.job(pk).attempt)
        assert (
            fleet.job(pk).error
            == f"TimeoutError: The run took longer than its timeout of {TIMEOUT:g} s."
        )
    assert fleet.nothing_held()
    assert [0] == fleet.rows("SELECT in_use FROM django_jobs_limit WHERE key = 'customer:7'")
    gone = fleet.value("SELECT clock_timestamp()")
    assert all(
        fleet.rows("SELECT run_after > %s FROM django_jobs_job WHERE state = 'scheduled'", gone)
    )
    next_worker = fleet.started("--max-in-flight", "8", **options)
    for pk in (first, second, *waits):
        fleet.wait_for_state(pk, "succeeded")
    assert ["attempt 2"] * 2 == [fleet.job(pk).result for pk in (first, second)]
    assert [2, 2, 1] == [fleet.ran(key) for key in (*SLOW, "waits")]
    assert 0 == fleet.stop(next_worker)


def test_a_second_sigterm_meanwhile_hands_back_at_once_and_tells_by_its_status(
    fleet: Fleet, end: End
):
    go = end()
    options = fleet.settings(grace_seconds=0.1)
    late = fleet.put_one("tests.worker.late_tasks.sleep_an_hour", "a", timeout=0.2)
    other = fleet.put_one("tests.worker.tasks.until", "b", str(go))
    worker = fleet.started("--max-in-flight", "2", **options)
    worker.wait_for_log("places are stuck: draining")
    fleet.wait_for_run("b")
    worker.term()
    time.sleep(0.5)
    assert worker.popen.poll() is None
    worker.term()
    assert 143 == worker.wait()
    assert (["timed_out", "failed"], ["handed_back"]) == (fleet.events(late), fleet.events(other))
    assert fleet.nothing_held()


def test_one_sigterm_meanwhile_leaves_its_status(fleet: Fleet, end: End):
    go = end()
    options = fleet.settings(grace_seconds=0.1)
    fleet.put_one("tests.worker.late_tasks.sleep_an_hour", "a", timeout=0.2)
    other = fleet.put_one("tests.worker.tasks.until", "b", str(go))
    worker = fleet.started("--max-in-flight", "2", **options)
    worker.wait_for_log("places are stuck: draining")
    worker.term()
    go.touch()
    assert (70, "succeeded") == (worker.wait(), fleet.job(other).state)


def test_a_drain_waits_for_no_stuck_run_and_does_not_hand_it_back(fleet: Fleet):
    options = fleet.settings(grace_seconds=0.1)
    pk = fleet.put_one("tests.worker.late_tasks.sleep_an_hour", "a", timeout=0.2)
    worker = fleet.started("--max-in-flight", "8", "--drain-timeout", "60", **options)
    worker.wait_for_log("its place is stuck")
    begun = time.monotonic()
    assert 0 == fleet.stop(worker)
    assert time.monotonic() - begun < 10
    assert (["timed_out", "failed"], 1) == (fleet.events(pk), fleet.job(pk).attempt)


def test_its_last_attempt_kills_the_job_and_one_that_may_not_be_repeated_dies_at_once(
    fleet: Fleet,
):
    options = fleet.settings(grace_seconds=0.1)
    slow = "tests.worker.late_tasks.sleep_an_hour"
    last = fleet.put_one(slow, "a", timeout=0.2, max_attempts=1)
    once = fleet.put_one(slow, "b", timeout=0.2, idempotent=False)
    worker = fleet.started("--max-in-flight", "8", **options)
    assert 70 == worker.wait()
    why = (
        "SELECT data::json ->> 'reason' FROM django_jobs_event WHERE job_id = %s AND kind = 'dead'"
    )
    assert ["attempts", "timed_out"] == [fleet.value(why, pk) for pk in (last, once)]
    assert {"dead"} == set(fleet.states())


@pytest.mark.slow
def test_a_database_that_is_away_at_the_end_leaves_the_leases_to_lapse(fleet: Fleet):
    options = fleet.settings(grace_seconds=0.5)
    pk = fleet.put_one("tests.worker.late_tasks.sleep_an_hour", "a", timeout=1)
    worker = fleet.started("--max-in-flight", "2", "--drain-timeout", "1", **options)
    fleet.wait_for_run("a")
    fleet.server.freeze()
    try:
        assert 70 == worker.wait()
    finally:
        fleet.server.thaw()
    fleet.started("--max-in-flight", "2", **options)
    fleet.wait_for_state(pk, "succeeded", seconds=30)
    assert (2, "attempt 2") == (fleet.ran("a"), fleet.job(pk).result)


def test_once_does_not_wait_for_a_stuck_run(fleet: Fleet):
    options = fleet.settings(grace_seconds=0.1)
    pk = fleet.put_one("tests.worker.late_tasks.sleep_an_hour", "a", timeout=0.2)
    assert 0 == fleet.worker("--once", "--max-in-flight", "8", **options).wait()
    assert ["timed_out", "failed"] == fleet.events(pk)


def test_the_timeout_of_the_command_bounds_tasks_that_name_none(fleet: Fleet):
    pk = fleet.put_one("tests.worker.late_tasks.sleep_an_hour", "a")
    free = fleet.put_one("tests.worker.tasks.work", "b", 1.0, timeout="Infinity")
    options = fleet.settings(grace_seconds=0.1)
    worker = fleet.started("--max-in-flight", "8", "--timeout", "0.3", **options)
    worker.wait_for_log("its place is stuck")
    fleet.wait_for_state(free, "succeeded")
    assert ([], ["timed_out"]) == (fleet.events(free), fleet.events(pk))


@pytest.mark.slow
def test_a_loop_of_c_freezes_its_process_and_another_worker_takes_the_job(fleet: Fleet):
    """No thread of the frozen process runs, so nothing there can tell of the timeout."""
    workers = [fleet.started("--lease", "2") for _ in range(2)]
    pk = fleet.put_one("tests.worker.late_tasks.count_in_c", "a", timeout=0.5)
    fleet.wait_for_state(pk, "succeeded", seconds=30)
    assert seconds_since_the_start(fleet, pk, "rescued") < 2 + 5  # the lease, and a look
    assert (2, "attempt 2", ["rescued"]) == (
        fleet.ran("a"),
        fleet.job(pk).result,
        fleet.events(pk),
    )
    [first] = fleet.rows("SELECT pid FROM ledger_mark WHERE key = 'a' AND attempt = 1")
    [frozen] = [worker for worker in workers if worker.pid == first]
    frozen.kill()
    assert "over its timeout" not in frozen.log()
