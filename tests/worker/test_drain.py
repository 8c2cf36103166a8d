"""A worker that is asked to stop loses nothing and burns no attempt."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Process
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
OFFSETS = int(os.environ.get("DJANGO_JOBS_OFFSETS", "20"))  # 200 in the long form
SEED = int(os.environ.get("DJANGO_JOBS_SEED") or random.SystemRandom().randrange(10**9))


def ended(process: Process, *, within: float) -> int:
    """Return the exit status of a process that ends in time."""
    begun = time.monotonic()
    status = process.wait(within + 5)
    assert time.monotonic() - begun <= within, process.log()
    return status


@pytest.mark.slow
@pytest.mark.timeout(60 + 3 * OFFSETS)
def test_a_sigterm_at_any_moment_leaves_every_job_done_or_untouched(fleet: Fleet):
    chance = random.Random(SEED)
    print(f"DJANGO_JOBS_SEED={SEED}")  # noqa: T201 - repeats a run that failed
    for seconds in (0, 0.005, 0.02):
        fleet.put("tests.tasks.mark", "a", seconds, count=60 * OFFSETS)
    fleet.rows("UPDATE django_jobs_job SET priority = (random() * 100)::int")
    for _ in range(OFFSETS // 4):
        fleet_of_four = [fleet.worker("--drain-timeout", "5", "--no-listen") for _ in range(4)]
        for process in fleet_of_four:
            process.wait_for_log("in flight; serves")
            time.sleep(chance.uniform(0, 0.05))  # the random moment itself
            process.term()
        for process in fleet_of_four:
            assert 0 == ended(process, within=4.8), process.log()
        assert fleet.nothing_held(), fleet.logs()
    assert len(fleet.rows("DELETE FROM django_jobs_job WHERE state = 'ready' RETURNING id")) > 0
    assert {"succeeded"} == set(fleet.states())
    assert [] == fleet.rows(
        "SELECT j.id, j.state, j.attempt FROM django_jobs_job j"
        " WHERE j.state <> 'succeeded' OR j.attempt <> 1 OR cardinality(j.worker_ids) <> 1"
        " OR 1 <> (SELECT count(*) FROM ledger_mark m WHERE m.job = j.id)"
    )
    assert 0 == fleet.value(
        "SELECT count(*) FROM (SELECT 1 FROM ledger_mark GROUP BY job HAVING count(*) > 1) t"
    )


def test_a_drain_that_is_shorter_than_the_job_hands_it_back(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go), max_attempts=1)
    async_pk = fleet.put_one("tests.worker.tasks.auntil", "b", str(go), max_attempts=1)
    worker = fleet.started("--drain-timeout", "1")
    fleet.wait_for_run("a")
    fleet.wait_for_run("b")
    worker.term()
    assert 0 == ended(worker, within=6)
    for each in (pk, async_pk):
        job = fleet.job(each)
        assert ("ready", 0, [], None) == (job.state, job.attempt, job.worker_ids, job.started_at)
        assert ["handed_back"] == fleet.events(each)
    assert fleet.nothing_held()
    assert "2 handed back" in worker.log()
    go.touch()
    assert 0 == fleet.worker("--once").wait()
    assert {"succeeded": 2} == fleet.states()
    assert {1} == {fleet.job(each).attempt for each in (pk, async_pk)}


@pytest.mark.slow
def test_five_drains_burn_no_attempt_and_kills_burn_all(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go), max_attempts=2)
    for number in range(5):
        worker = fleet.started("--drain-timeout", "0")
        fleet.wait_for_run("a", number + 1)
        assert 0 == fleet.stop(worker)
        assert ("ready", 0) == (fleet.job(pk).state, fleet.job(pk).attempt)
    for number in range(2):
        worker = fleet.started("--lease", "2")
        fleet.wait_for_run("a", number + 6)
        worker.kill()
    fleet.started("--lease", "2")
    fleet.wait_for_state(pk, "dead")
    assert (2, 7, "worker_lost") == (fleet.job(pk).attempt, fleet.ran("a"), fleet.job(pk).error)
    assert [*["handed_back"] * 5, "rescued", "dead"] == fleet.events(pk)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_hands_back_at_once_and_tells_by_its_status(
    fleet: Fleet, end: End, number: signal.Signals
):
    go = end()
    pks = fleet.put("tests.worker.tasks.until", "a", str(go), count=3)
    worker = fleet.started()
    fleet.wait_for_run("a", 3)
    worker.term()
    worker.wait_for_log("draining")
    worker.signal(number)
    assert 128 + number == ended(worker, within=8)
    assert {("ready", 0)} == {(fleet.job(pk).state, fleet.job(pk).attempt) for pk in pks}
    assert fleet.nothing_held()


def test_an_idle_worker_stops_at_once(fleet: Fleet):
    sleeps = fleet.settings(poll_floor_seconds=9.0)
    for flags in ((), ("--no-listen",)):
        worker = fleet.idle(*flags, **sleeps)
        fleet.wait(
            "SELECT loop_at < clock_timestamp() - interval '100 ms' FROM django_jobs_worker"
            " WHERE pid = %s",
            worker.pid,
        )
        worker.term()
        assert 0 == ended(worker, within=5)
        assert ("stopped", False, 0) == fleet.value(
            "SELECT state, idle, in_flight FROM django_jobs_worker WHERE pid = %s", worker.pid
        )


def test_a_job_that_must_not_run_twice_is_not_handed_back_but_buried(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go), idempotent=False)
    worker = fleet.started("--drain-timeout", "0", "--lease", "2")
    fleet.wait_for_run("a")
    assert 0 == fleet.stop(worker)
    assert ("running", []) == (fleet.job(pk).state, fleet.events(pk))
    fleet.started("--lease", "2")
    fleet.wait_for_state(pk, "dead")
    assert (["dead"], 1, "worker_lost") == (fleet.events(pk), fleet.ran("a"), fleet.job(pk).error)


def test_work_in_a_pool_of_threads_does_not_delay_the_exit(fleet: Fleet):
    pk = fleet.put_one("tests.worker.tasks.sleep_in_a_thread", "a", 30)
    worker = fleet.started("--drain-timeout", "0")
    fleet.wait_for_run("a")
    worker.term()
    assert 0 == ended(worker, within=10)
    assert "ready" == fleet.job(pk).state


def test_a_stopped_workers_own_cancellation_fails_no_job(fleet: Fleet, end: End):
    """The same exception raised by a task is its failure; test_loop shows that."""
    go = end()
    pk = fleet.put_one("tests.worker.tasks.auntil", "a", str(go), max_attempts=1)
    worker = fleet.started(LABEL="first")
    fleet.wait_for_run("a")
    worker.term()
    worker.wait_for_log("draining")
    worker.term()
    assert 143 == worker.wait()
    assert ("ready", ["handed_back"]) == (fleet.job(pk).state, fleet.events(pk))


def test_work_that_was_done_but_not_settled_is_done_again_once(fleet: Fleet):
    """At least once: what a kill between the work and its settle costs."""
    pk = fleet.put_one("tests.worker.tasks.die_after_the_work", "a")
    first = fleet.started("--lease", "2")
    assert -signal.SIGKILL == first.wait()
    fleet.started("--lease", "2")
    fleet.wait_for_state(pk, "succeeded")
    assert (2, ["rescued"], "attempt 2") == (
        fleet.ran("a"),
        fleet.events(pk),
        fleet.job(pk).result,
    )


def test_a_stop_amid_a_backlog_claims_nothing_more(fleet: Fleet, end: End):
    go = end()
    held = [
        fleet.put_one("tests.worker.tasks.until", queue, str(go), queue=queue) for queue in "abc"
    ]
    more = [pk for queue in "abc" for pk in fleet.put("tests.tasks.ok", 1, count=9, queue=queue)]
    worker = fleet.started("--max-in-flight", "3")
    for queue in "abc":
        fleet.wait_for_run(queue)
    worker.term()
    worker.wait_for_log("draining: 3 in flight")
    go.touch()
    assert 0 == worker.wait()
    assert {"succeeded"} == {fleet.job(pk).state for pk in held}
    assert {("ready", 0)} == {(fleet.job(pk).state, fleet.job(pk).attempt) for pk in more}
    assert "3 claimed, 3 succeeded" in worker.log()


def test_each_stop_has_a_drain_time_of_its_own(fleet: Fleet, end: End):
    """A second drain is not shortened by what the first one used."""
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    for number in (1, 2):
        worker = fleet.started("--drain-timeout", "1")
        fleet.wait_for_run("a", number)
        worker.term()
        begun = time.monotonic()
        assert 0 == worker.wait()
        assert time.monotonic() - begun >= 0.95
    assert "ready" == fleet.job(pk).state


def test_a_drain_hands_back_what_another_transaction_holds_for_a_moment(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started("--drain-timeout", "0")
    fleet.wait_for_run("a")
    with fleet.connect() as holder, holder.transaction():
        holder.execute("SELECT FROM django_jobs_job WHERE id = %s FOR UPDATE", [pk])
        worker.term()
        worker.wait_for_log("draining")
        time.sleep(0.3)  # long enough for a first try
    assert 0 == worker.wait()
    assert ("ready", 0) == (fleet.job(pk).state, fleet.job(pk).attempt)
    assert fleet.nothing_held()


@pytest.mark.slow
def test_a_frozen_database_does_not_hold_up_a_stop(fleet: Fleet, end: End):
    go = end()
    fleet.put("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started("--drain-timeout", "1")
    fleet.wait_for_run("a")
    fleet.server.freeze()
    try:
        worker.term()
        assert 0 == ended(worker, within=6)
    finally:
        fleet.server.thaw()


def test_a_drain_is_told_by_the_row_at_once(fleet: Fleet, end: End):
    """Not with the next heartbeat: until then a page would say that it has room."""
    go = end()
    fleet.put("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started("--lease", "60", "--drain-timeout", "30")
    fleet.wait_for_run("a")
    worker.term()
    fleet.wait("SELECT state = 'draining' FROM django_jobs_worker", seconds=5)
    go.touch()
    assert 0 == worker.wait()
