"""Lapsed leases are taken back by whoever lives, and from nobody who lives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import wait_for
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
LEASE = 2.0
FLAGS = ("--lease", f"{LEASE:g}")


def test_a_frozen_workers_outcome_after_the_rescue_is_refused(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    first = fleet.started(*FLAGS, LABEL="A", NOTE_SIGNALS="1")
    fleet.wait_for_run("a")
    first.freeze()
    second = fleet.started(*FLAGS, LABEL="B", NOTE_SIGNALS="1")
    fleet.wait_for_run("a", 2)
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    first.thaw()
    first.wait_for_log(f"lost lease: the outcome of job {pk} is void")
    fleet.wait_for_run(f"finished {pk}")
    assert (0, 0) == (fleet.stop(first), fleet.stop(second))
    job = fleet.job(pk)
    assert ("succeeded", "B", 2, ["rescued"]) == (
        job.state,
        job.result,
        job.attempt,
        fleet.events(pk),
    )
    assert 1 == fleet.ran(f"finished {pk}")
    assert 1 == fleet.logs().count("is void")


def test_the_fence_holds_when_the_same_worker_claims_its_own_lost_job(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started("--lease", "30", NOTE_SIGNALS="1")
    fleet.wait_for_run("a")
    fleet.rows(  # a rescue, as another worker would have done it
        "WITH gone AS (DELETE FROM django_jobs_lease RETURNING job_id) UPDATE django_jobs_job"
        " SET state = 'ready' FROM gone WHERE id = job_id"
    )
    fleet.ring()
    fleet.wait_for_run("a", 2)
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    worker.wait_for_log("is void")
    fleet.wait_for_run(f"finished {pk}")
    assert 0 == fleet.stop(worker)
    assert (1, 2) == (fleet.ran(f"finished {pk}"), fleet.job(pk).attempt)
    assert "2 claimed, 1 succeeded" in worker.log()


def test_a_killed_workers_job_is_run_by_its_successor_at_the_lapse(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    first = fleet.started(*FLAGS)
    fleet.wait_for_run("a")
    first.kill()
    killed = time.monotonic()
    fleet.started(*FLAGS)
    fleet.wait_for_run("a", 2)
    assert time.monotonic() - killed < LEASE + 4
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    [(kind, text)] = fleet.rows(
        "SELECT kind, data::json ->> 'traceback' FROM django_jobs_event WHERE job_id = %s", pk
    )
    assert "rescued" == kind
    assert f"worker {first.pid} on " in text


def test_a_worker_that_runs_once_rescues_at_its_second_start(fleet: Fleet, end: End):
    go = end()
    go.touch()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go), backoff_base=0)
    fleet.rows("UPDATE django_jobs_job SET state = 'running', attempt = 1")
    fleet.rows(
        "INSERT INTO django_jobs_lease (job_id, worker, expires_at)"
        " VALUES (%s, gen_random_uuid(), now() - interval '1 hour')",
        pk,
    )
    assert 0 == fleet.worker("--once", *FLAGS).wait()
    assert ("running", 0) == (fleet.job(pk).state, fleet.ran("a"))
    fleet.rows(  # some minutes later
        "UPDATE django_jobs_worker SET seen_at = now() - interval '5 minutes'"
    )
    fleet.rows("UPDATE django_jobs_lease SET expires_at = now() - interval '4 minutes'")
    assert 0 == fleet.worker("--once", *FLAGS).wait()
    assert "running" != fleet.job(pk).state
    assert 0 == fleet.worker("--once", *FLAGS).wait()
    assert ("succeeded", ["rescued"]) == (fleet.job(pk).state, fleet.events(pk))


def test_when_the_rescuer_freezes_another_rescues(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go), queue="a")
    first = fleet.started(*FLAGS, "--queue", "a")
    fleet.wait_for_run("a")
    rescuers = [fleet.started(*FLAGS, "--queue", "b") for _ in range(2)]
    first.kill()
    rescuers[0].freeze()
    fleet.wait_for_state(pk, "ready", seconds=LEASE + 3)
    assert "rescued" in rescuers[1].log()
    rescuers[0].thaw()


def test_racing_rescuers_bury_once(fleet: Fleet, end: End):
    pks = fleet.put(
        "tests.worker.tasks.until", "a", str(end()), count=5, max_attempts=1, queue="a"
    )
    first = fleet.started(*FLAGS, "--queue", "a", NOTE_SIGNALS="1")
    fleet.wait_for_run("a", 5)
    rescuers = [fleet.started(*FLAGS, "--queue", "b", NOTE_SIGNALS="1") for _ in range(2)]
    first.kill()
    fleet.wait_for_all("dead")
    for pk in pks:
        fleet.wait_for_run(f"finished {pk}")
    assert [0, 0] == [fleet.stop(each) for each in rescuers]
    for pk in pks:
        assert (["dead"], 1) == (fleet.events(pk), fleet.ran(f"finished {pk}"))
    assert 5 == len(fleet.lines("ERROR"))


@pytest.mark.slow
def test_a_call_that_keeps_the_gil_is_rescued_elsewhere_and_its_outcome_refused(fleet: Fleet):
    pk = fleet.put_one("tests.worker.tasks.hold_gil", "a", 2.5 * LEASE)
    first = fleet.started(*FLAGS)
    fleet.wait_for_run("a")
    second = fleet.started(*FLAGS)
    fleet.wait_for_state(pk, "succeeded")
    assert ("attempt 2", 2) == (fleet.job(pk).result, fleet.ran("a"))
    first.wait_for_log(f"lost lease: the outcome of job {pk} is void")
    assert (0, 0) == (fleet.stop(first), fleet.stop(second))
    assert ["rescued"] == fleet.events(pk)


def test_a_workers_row_that_is_deleted_hides_no_lost_job(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    first = fleet.started(*FLAGS)
    fleet.wait_for_run("a")
    first.kill()
    fleet.rows("DELETE FROM django_jobs_worker")
    second = fleet.started(*FLAGS)
    fleet.wait_for_run("a", 2, seconds=2 * LEASE + 5)
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    assert 0 == fleet.stop(second)


def test_a_host_that_was_suspended_and_comes_back_alone_keeps_its_jobs(fleet: Fleet, end: End):
    """Nobody beat meanwhile, so nobody was alive to rescue."""
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started(*FLAGS)
    fleet.wait_for_run("a")
    worker.freeze()
    fleet.wait("SELECT expires_at < clock_timestamp() - interval '0.5 s' FROM django_jobs_lease")
    worker.thaw()
    fleet.wait("SELECT expires_at > clock_timestamp() FROM django_jobs_lease")
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    assert (1, 1, []) == (fleet.job(pk).attempt, fleet.ran("a"), fleet.events(pk))
    assert 0 == fleet.stop(worker)


def test_a_host_whose_clock_is_wrong_claims_promotes_and_rescues_nothing_early(
    fleet: Fleet, end: End
):
    shifted = (
        "import time, datetime\n_time = time.time\n"
        "time.time = lambda: _time() + {0}\n"
        "time.time_ns = lambda: int(time.time() * 1e9)\n"
    )
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    later = fleet.put_one("tests.tasks.ok", state="scheduled", run_after="infinity")
    fleet.rows(
        "UPDATE django_jobs_job SET run_after = now() + interval '10 min' WHERE id = %s", later
    )
    snoozed = fleet.put_one("tests.worker.tasks.fail", backoff_base=500, max_attempts=9)
    workers = [
        fleet.started(*FLAGS, **fleet.injected(shifted.format(hours * 3600))) for hours in (1, -1)
    ]
    fleet.wait_for_run("a")
    begun = time.monotonic()
    wait_for(lambda: time.monotonic() - begun > 1.5 * LEASE)
    assert ("running", "scheduled") == (fleet.job(pk).state, fleet.job(later).state)
    delay = fleet.value(
        "SELECT extract(epoch FROM run_after - clock_timestamp())::float8 FROM django_jobs_job"
        " WHERE id = %s",
        snoozed,
    )
    assert 480 < delay < 500
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    assert (1, []) == (fleet.ran("a"), fleet.events(pk))
    assert fleet.value(
        "SELECT bool_and(abs(extract(epoch FROM seen_at - now())) < 5) FROM django_jobs_worker"
    )
    assert [0, 0] == [fleet.stop(worker) for worker in workers]
