"""The sweeper goes on whatever meets it, and nothing it does collides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]


def lapsed(fleet: Fleet, task: str, count: int, **columns: object) -> list[int]:
    """Insert jobs whose worker was lost."""
    pks = fleet.put(task, "a", count=count, state="running", attempt=1, **columns)
    fleet.rows(
        "INSERT INTO django_jobs_lease (job_id, worker, expires_at) SELECT id,"
        " gen_random_uuid(), clock_timestamp() - interval '1 s' FROM unnest(%s::bigint[]) AS id",
        pks,
    )
    return pks


@pytest.mark.slow
def test_a_lost_fleet_is_rescued_whatever_its_size(fleet: Fleet):
    worker = fleet.idle("--lease", "2", "--max-in-flight", "50")
    pks = lapsed(fleet, "tests.tasks.ok", 150)
    fleet.wait("SELECT bool_and(state <> 'running') OR count(*) = 0 FROM django_jobs_job")
    fleet.wait_for_all()
    assert 150 == fleet.value("SELECT count(*) FROM django_jobs_event WHERE kind = 'rescued'")
    assert {2} == {fleet.job(pk).attempt for pk in pks[:3]}
    assert 0 == fleet.stop(worker)


def test_a_job_that_cannot_be_rescued_holds_up_no_other(fleet: Fleet):
    fleet.rows("""
        CREATE FUNCTION no_rescue() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no rescue for this one'; END $$;
        CREATE TRIGGER no_rescue BEFORE UPDATE ON django_jobs_job FOR EACH ROW
            WHEN (OLD.task = 'tests.tasks.boom') EXECUTE FUNCTION no_rescue();
    """)
    try:
        worker = fleet.idle("--lease", "2")
        [bad] = lapsed(fleet, "tests.tasks.boom", 1)
        good = lapsed(fleet, "tests.tasks.ok", 3)
        fleet.wait(
            "SELECT bool_and(state = 'succeeded') FROM django_jobs_job WHERE id = ANY (%s)", good
        )
        assert "running" == fleet.job(bad).state
    finally:
        fleet.rows("DROP FUNCTION no_rescue CASCADE")
    fleet.wait_for_state(bad, "dead")
    assert 0 == fleet.stop(worker)


@contextmanager
def again_and_again(fleet: Fleet, *statements: str) -> Iterator[list[int]]:
    """Run statements in loops beside the body; yield how often each was done."""
    stop, done = threading.Event(), [0] * len(statements)

    def repeat(place: int, statement: str) -> None:
        with fleet.connect() as connection:
            while not stop.wait(0.005):
                with suppress(psycopg.errors.LockNotAvailable):
                    connection.execute(statement)
                    done[place] += 1

    threads = [
        threading.Thread(target=repeat, args=each, daemon=True) for each in enumerate(statements)
    ]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


def test_workers_and_operators_do_not_deadlock(fleet: Fleet):
    """Short form: claims, settles, renewals and rescues beside inserts, requeues and purges."""
    workers = [fleet.started("--lease", "2", "--max-in-flight", "16") for _ in range(3)]
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = fleet.value(deadlocks)
    some = "(SELECT id FROM django_jobs_job {} ORDER BY {} LIMIT 50 FOR UPDATE SKIP LOCKED)"
    requeue = (
        "UPDATE django_jobs_job SET state = 'ready', finished_at = NULL, life = life + 1,"
        " attempt = 0, worker_ids = '{}', settled_lease = NULL, started_at = NULL WHERE id IN "
        + some.format("WHERE finished_at IS NOT NULL", "id DESC")
    )
    purge = (
        "WITH gone AS (DELETE FROM django_jobs_job WHERE id IN "
        + some.format("WHERE finished_at IS NOT NULL", "id")
        + " RETURNING id) DELETE FROM django_jobs_event WHERE job_id IN (SELECT id FROM gone)"
    )
    insert = (
        "INSERT INTO django_jobs_event (job_id, kind, attempt, life)"
        " SELECT id, 'requeued', 0, 1 FROM django_jobs_job ORDER BY random() LIMIT 20"
    )
    lapse = (
        "UPDATE django_jobs_lease SET expires_at = now() WHERE id IN (SELECT id FROM"
        " django_jobs_lease ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED)"
    )
    with again_and_again(fleet, requeue, purge, insert, lapse) as done:
        for _ in range(10):
            fleet.put("tests.tasks.ok", 1, count=200, max_attempts=30)
            fleet.ring()
            fleet.wait("SELECT count(*) < 150 FROM django_jobs_job WHERE finished_at IS NULL")
    fleet.wait("SELECT count(*) = 0 FROM django_jobs_job WHERE finished_at IS NULL")
    assert before == fleet.value(deadlocks)
    assert min(done) >= 10, "the loops were too slow to prove anything"
    assert set(fleet.states()) <= {"succeeded"}
    assert [0, 0, 0] == [fleet.stop(worker) for worker in workers]
    assert "deadlock" not in fleet.logs()
    assert fleet.nothing_held()
