"""The loop goes on, whatever the database or a task does to one of its passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from django_jobs.conf import Options
from django_jobs.placement import Host
from django_jobs.planner import Turns
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.connection import PrivateDatabase
from django_jobs.worker.hosting import Hosting
from django_jobs.worker.loop import Loop
from django_jobs.worker.wakeup import Wakeup
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]


@pytest.fixture
def trap(fleet: Fleet):
    """Let the server fail statements on purpose; undone at the end."""
    tables = []

    def set_trap(table: str, when: str, *, condition: str, code: str, times: int = 10**6) -> None:
        tables.append(table)
        fleet.rows(f"""
            CREATE SEQUENCE trap_{table};
            CREATE FUNCTION trap_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF {condition} THEN
                    IF nextval('trap_{table}') <= {times}
                    THEN RAISE EXCEPTION 'set on purpose' USING ERRCODE = '{code}'; END IF;
                END IF;
                RETURN coalesce(NEW, OLD); END $$;
            CREATE TRIGGER trap BEFORE {when} ON django_jobs_{table}
                FOR EACH ROW EXECUTE FUNCTION trap_{table}();
        """)

    yield set_trap
    for table in tables:
        fleet.rows(f"DROP FUNCTION trap_{table} CASCADE; DROP SEQUENCE trap_{table}")


@pytest.mark.parametrize("code", ["40P01", "57014", "53200"])
def test_trouble_of_the_database_is_never_blamed_on_the_job(
    fleet: Fleet, trap: Callable[..., None], code: str
):
    trap("lease", "INSERT OR DELETE", condition="true", code=code, times=2)
    trap("job", "UPDATE", condition="NEW.state = 'succeeded'", code=code, times=2)
    pk = fleet.put_one("tests.tasks.mark", "a")
    worker = fleet.started()
    fleet.wait_for_state(pk, "succeeded", seconds=5)
    assert 0 == fleet.stop(worker)
    assert (1, 1, []) == (fleet.job(pk).attempt, fleet.ran("a"), fleet.events(pk))
    assert "set on purpose" in worker.log()
    assert [] == fleet.lines("ERROR")


def test_an_outcome_that_is_refused_dies_and_blocks_no_other(
    fleet: Fleet, trap: Callable[..., None], end: End
):
    go, go_bad = end(), end()
    good = fleet.put("tests.worker.tasks.until", "a", str(go), count=3)
    bad = fleet.put_one("tests.worker.tasks.until", "a", str(go_bad))
    trap("job", "UPDATE", condition=f"NEW.id = {bad} AND NEW.state = 'succeeded'", code="P0001")
    worker = fleet.started()
    fleet.wait_for_run("a", 4)
    with fleet.connect() as holder, holder.transaction():
        holder.execute("SELECT FROM django_jobs_job FOR UPDATE")
        go.touch()
        time.sleep(0.3)  # all four end meanwhile, the bad one last, and are settled in one batch
        go_bad.touch()
        time.sleep(0.3)
    fleet.wait("SELECT bool_and(finished_at IS NOT NULL) FROM django_jobs_job")
    assert {("succeeded", 1)} == {(fleet.job(pk).state, fleet.job(pk).attempt) for pk in good}
    assert ("dead", 1, ["dead"]) == (
        fleet.job(bad).state,
        fleet.job(bad).attempt,
        fleet.events(bad),
    )
    assert 0 == fleet.stop(worker)
    assert fleet.nothing_held()


def test_an_outcome_that_is_refused_in_every_form_gives_its_place_back(
    fleet: Fleet, trap: Callable[..., None]
):
    trap(
        "job", "UPDATE", condition="NEW.task LIKE '%boom' AND OLD.state = 'running'", code="P0001"
    )
    bad = fleet.put_one("tests.tasks.boom")
    worker = fleet.started("--max-in-flight", "1", "--lease", "2")
    more = fleet.put("tests.tasks.mark", "a", count=5)
    fleet.wait(
        "SELECT bool_and(state = 'succeeded') FROM django_jobs_job WHERE id = ANY (%s)", more
    )
    assert "running" == fleet.job(bad).state
    fleet.rows("DROP TRIGGER trap ON django_jobs_job")
    fleet.wait_for_state(bad, "scheduled", "dead")  # its lease was left to lapse
    assert 0 == fleet.stop(worker)


def test_short_jobs_do_not_wait_for_a_long_one(fleet: Fleet, end: End):
    go = end()
    long = fleet.put_one("tests.worker.tasks.until", "long", str(go), queue="a")
    short = fleet.put("tests.tasks.mark", "short", count=10, queue="b")
    worker = fleet.started("--max-in-flight", "2")
    fleet.wait(
        "SELECT bool_and(state = 'succeeded') FROM django_jobs_job WHERE id = ANY (%s)", short
    )
    assert "running" == fleet.job(long).state
    go.touch()
    fleet.wait_for_state(long, "succeeded")
    assert 0 == fleet.stop(worker)


def test_no_worker_keeps_jobs_waiting_behind_a_long_one(fleet: Fleet, end: End):
    go = end()
    for _ in range(2):
        fleet.started("--max-in-flight", "1")
    fleet.put("tests.worker.tasks.until", "long", str(go))
    fleet.ring()
    fleet.wait_for_run("long")
    short = fleet.put("tests.tasks.mark", "short", count=5)
    fleet.ring()
    fleet.wait_for_run("short", 5, seconds=3)
    assert 0 == fleet.value(
        "SELECT count(*) FROM django_jobs_job WHERE state = 'running' AND started_at IS NULL"
    )
    go.touch()
    fleet.wait_for_all()
    assert {"succeeded"} == {fleet.job(pk).state for pk in short}


def test_a_place_that_is_given_back_twice_is_free_once():
    capacity = Capacity(cap=2, slots={}, default_slots=2)

    class Job:
        lease, queue, suspect = 7, "default", False

    class Held:
        job = Job

    capacity.take([Held])  # type: ignore[list-item]
    assert (1, 1) == (capacity.room(), capacity.lanes(["default"], Turns({}))[0].held)
    assert capacity.release(7) is not None
    assert capacity.release(7) is None
    assert capacity.release(7) is None
    assert (2, 0) == (capacity.room(), capacity.lanes(["default"], Turns({}))[0].held)


def test_a_loop_that_may_not_claim_yet_looks_again_soon():
    """Whatever it slept before: the next heartbeat may be a moment away."""
    loop = Loop(
        worker=uuid4(),
        options=Options("default"),
        database=PrivateDatabase("default", purpose="loop"),
        capacity=Capacity(cap=1, slots={}, default_slots=1),
        runs=SimpleNamespace(collect=list, wake_for_waiting=int, has_waiting=False),  # type: ignore[arg-type]
        turns=Turns({}),
        wakeup=Wakeup(),
        queues=lambda: ["default"],
        healthy=lambda: False,
        register=lambda: 1,
        settled=lambda *_: None,
        ended=lambda _: None,
        expect=lambda _: None,
        hosting=Hosting(Host(names={"here"}), name="here", worker=uuid4()),
        late=SimpleNamespace(tell=list, untold={}),  # type: ignore[arg-type]
    )
    loop._pause = 10.0
    assert loop.turn(claiming=True) <= 1.0
