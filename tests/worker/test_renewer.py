"""Leases live as long as their runs and their worker do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import wait_for
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
FLAGS = ("--lease", "2")


def elapse(seconds: float) -> None:
    """Let a time pass that is itself what a test is about."""
    begun = time.monotonic()
    wait_for(lambda: time.monotonic() - begun > seconds, seconds=seconds + 5)


@pytest.mark.slow
def test_a_job_may_take_many_leases_and_runs_once(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    workers = [fleet.started(*FLAGS) for _ in range(2)]
    fleet.wait_for_run("a")
    seen: set[object] = set()

    def renewed_ten_times() -> bool:
        seen.update(fleet.rows("SELECT id, expires_at FROM django_jobs_lease"))
        return len(seen) > 10

    wait_for(renewed_ten_times, what=f"seen: {seen}")
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    assert (1, 1, []) == (fleet.ran("a"), fleet.job(pk).attempt, fleet.events(pk))
    assert [0, 0] == [fleet.stop(worker) for worker in workers]


@pytest.mark.slow
def test_a_renewal_that_is_late_every_other_time_loses_no_lease(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    workers = [fleet.started("--lease", "3") for _ in range(2)]
    fleet.wait_for_run("a")
    for _ in range(3):
        with fleet.connect() as holder, holder.transaction():
            holder.execute("SELECT FROM django_jobs_lease FOR UPDATE")
            elapse(1.5)  # more than a renewal interval, less than two
        fleet.wait(
            "SELECT expires_at > clock_timestamp() + interval '2.5 s' FROM django_jobs_lease"
        )
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    assert (1, []) == (fleet.ran("a"), fleet.events(pk))
    assert [0, 0] == [fleet.stop(worker) for worker in workers]


@pytest.mark.slow
def test_the_lease_of_a_finished_run_that_cannot_be_settled_is_kept(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    workers = [fleet.started(*FLAGS) for _ in range(2)]
    fleet.wait_for_run("a")
    with fleet.connect() as holder, holder.transaction():
        holder.execute("SELECT FROM django_jobs_job WHERE id = %s FOR UPDATE", [pk])
        go.touch()
        elapse(4.5)  # two leases
        assert fleet.value("SELECT expires_at > clock_timestamp() FROM django_jobs_lease")
    fleet.wait_for_state(pk, "succeeded", seconds=3)
    assert (1, 1, []) == (fleet.ran("a"), fleet.job(pk).attempt, fleet.events(pk))
    assert [0, 0] == [fleet.stop(worker) for worker in workers]


def test_a_drain_waits_for_an_outcome_that_cannot_be_written_yet(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started(*FLAGS)
    fleet.wait_for_run("a")
    with fleet.connect() as holder, holder.transaction():
        holder.execute("SELECT FROM django_jobs_job WHERE id = %s FOR UPDATE", [pk])
        go.touch()
        worker.term()
        worker.wait_for_log("draining: 1 in flight")
        elapse(0.5)
        assert worker.popen.poll() is None
    assert 0 == worker.wait()
    assert ("succeeded", 1) == (fleet.job(pk).state, fleet.job(pk).attempt)


def test_a_worker_whose_heartbeat_is_refused_claims_nothing_and_tells_its_runs(
    fleet: Fleet, end: End
):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started(*FLAGS)
    fleet.wait_for_run("a")
    fleet.rows("""
        CREATE FUNCTION no_beat() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no beat' USING ERRCODE = '53100'; END $$;
        CREATE TRIGGER no_beat BEFORE UPDATE OF seen_at ON django_jobs_worker
            FOR EACH ROW EXECUTE FUNCTION no_beat();
    """)
    try:
        wait_for(Path(f"{go}.lost.").exists, what=worker.log())
        more = fleet.put_one("tests.tasks.mark", "b")
        fleet.ring()
        elapse(1.0)
        assert ("ready", 0) == (fleet.job(more).state, fleet.ran("b"))
        assert worker.popen.poll() is None
    finally:
        fleet.rows("DROP FUNCTION no_beat CASCADE")
    fleet.wait_for_state(more, "succeeded", seconds=5)
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    assert (1, []) == (fleet.ran("a"), fleet.events(pk))
    assert 0 == fleet.stop(worker)
