"""The loop goes on, whatever the database or a task does to one of its passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from django_jobs.planner import Turns
from django_jobs.worker.capacity import Capacity
from tests.worker.fleet import Fleet
from tests.worker.tasks import NASTY

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


@pytest.mark.parametrize("code", ["40P01", "40001", "55P03", "57014", "53200"])
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
    fleet: Fleet, trap: Callable[..., None]
):
    trap("job", "UPDATE", condition="NEW.result = '\"bad\"'", code="P0001")
    pks = [fleet.put_one("tests.tasks.ok", word) for word in ("a", "bad", "b", "c")]
    worker = fleet.started()
    fleet.wait("SELECT bool_and(finished_at IS NOT NULL) FROM django_jobs_job")
    assert ["succeeded", "dead", "succeeded", "succeeded"] == [
        fleet.job(pk).state for pk in pks
    ]
    assert (1, ["dead"]) == (fleet.job(pks[1]).attempt, fleet.events(pks[1]))
    assert 0 == fleet.stop(worker)
    assert fleet.nothing_held()


def test_an_outcome_that_is_refused_in_every_form_gives_its_place_back(
    fleet: Fleet, trap: Callable[..., None]
):
    trap("job", "UPDATE", condition="NEW.task LIKE '%boom' AND OLD.state = 'running'", code="P0001")
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


def test_what_no_code_expects_to_be_raised_is_a_failed_attempt(fleet: Fleet):
    kinds = list(NASTY)
    sync = {kind: fleet.put_one("tests.worker.tasks.nasty", kind, max_attempts=1) for kind in kinds}
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
    assert {1} == {fleet.job(each).attempt for each in broken}
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
        "tests.worker.tasks.fail", count=150, backoff_base=1000, backoff_cap=1000, backoff_jitter=0.25
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
