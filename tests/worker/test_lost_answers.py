"""A line that breaks between a commit and its answer costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import wait_for
from tests.proxy import Proxy
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess

CLAIM = "INSERT INTO django_jobs_lease"
SETTLE = "DELETE FROM django_jobs_lease l USING held"
WAITING = (
    "SELECT count(*) = %s FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'jobworker loop' AND wait_event_type = 'Lock'"
)
End = Callable[[], Path]


def forbid_more_leases_than(fleet: Fleet, cap: int) -> None:
    """Let the server refuse a lease that is one too many for its worker."""
    fleet.rows(f"""
        CREATE OR REPLACE FUNCTION too_many() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF (SELECT max(n) FROM (SELECT count(*) AS n FROM django_jobs_lease
                                    GROUP BY worker) c) > {cap}
            THEN RAISE EXCEPTION 'a worker holds more than its cap'; END IF;
            RETURN NULL; END $$;
        CREATE OR REPLACE TRIGGER too_many AFTER INSERT ON django_jobs_lease
            FOR EACH STATEMENT EXECUTE FUNCTION too_many();
    """)


@pytest.fixture
def capped(fleet: Fleet):
    forbid_more_leases_than(fleet, 3)
    yield fleet
    fleet.rows("DROP TRIGGER IF EXISTS too_many ON django_jobs_lease")


def test_a_settle_whose_answer_was_lost_counts_once_and_is_announced_once(
    fleet: Fleet, proxy: Proxy, end: End
):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started("--lease", "10", port=proxy.port, NOTE_SIGNALS="1", LABEL="A")
    fleet.wait_for_run("a")
    lost = proxy.lose_answer(SETTLE)
    go.touch()
    assert lost.wait(10)
    fleet.wait_for_run(f"finished {pk}")
    assert 0 == fleet.stop(worker)
    job = fleet.job(pk)
    assert ("succeeded", 1, "A") == (job.state, job.attempt, job.result)
    assert (1, 1) == (fleet.ran("a"), fleet.ran(f"finished {pk}"))
    assert "1 succeeded" in worker.log()
    assert "lost lease" not in worker.log()


def test_a_claim_whose_answer_was_lost_is_handed_back_before_the_next(capped: Fleet, proxy: Proxy):
    lost = proxy.lose_answer(CLAIM)
    keys = [f"k{number}" for number in range(8)]
    pks = [capped.put_one("tests.tasks.mark", key) for key in keys]
    worker = capped.started("--lease", "10", "--max-in-flight", "3", port=proxy.port)
    assert lost.wait(10)
    capped.wait_for_all()
    assert 0 == capped.stop(worker)
    assert "handed back what a lost answer claimed: 3 jobs" in worker.log()
    assert [1] * 8 == [capped.ran(key) for key in keys]
    assert {1} == {capped.job(pk).attempt for pk in pks}
    assert "more than its cap" not in worker.log()


def test_a_claim_that_arrives_after_its_worker_went_on_takes_nothing(
    capped: Fleet, proxy: Proxy, end: End
):
    kept = proxy.hold_back(CLAIM)
    go = end()
    first, second = (capped.put_one("tests.worker.tasks.until", key, str(go)) for key in "ab")
    worker = capped.started("--lease", "10", "--max-in-flight", "1", port=proxy.port)
    assert kept.wait(10)
    capped.wait_for_run("a")
    proxy.deliver()
    assert 1 == capped.value("SELECT count(*) FROM django_jobs_lease")
    assert ("running", "ready") == (capped.job(first).state, capped.job(second).state)
    go.touch()
    capped.wait_for_all()
    assert 0 == capped.stop(worker)
    assert (1, 1) == (capped.job(first).attempt, capped.job(second).attempt)


def test_a_claim_that_commits_after_its_line_was_cut_is_found_and_handed_back(
    capped: Fleet, proxy: Proxy
):
    """It is at work in the server already: the worker waits for it before it claims again."""
    worker = capped.idle("--lease", "10", "--max-in-flight", "3", port=proxy.port)
    capped.rows("""
        CREATE SEQUENCE gates;
        CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('gates') = 1 THEN PERFORM pg_advisory_xact_lock(4712); END IF;
            RETURN NEW; END $$;
        CREATE TRIGGER gate BEFORE INSERT ON django_jobs_lease
            FOR EACH ROW EXECUTE FUNCTION gate();
    """)
    try:
        with capped.connect() as holder, holder.transaction():
            holder.execute("SELECT pg_advisory_xact_lock(4712)")
            pk = capped.put_one("tests.tasks.mark", "late")
            capped.ring()
            capped.wait(WAITING, 1)
            proxy.cut()
            capped.wait(WAITING, 2)  # the claim, and the new session that wants to void it
        capped.wait_for_all()
        assert 0 == capped.stop(worker)
    finally:
        capped.end_sessions()
        capped.rows("DROP FUNCTION gate CASCADE; DROP SEQUENCE gates")
    assert "handed back what a lost answer claimed: 1 job" in worker.log()
    assert (1, 1, ["handed_back"]) == (
        capped.job(pk).attempt,
        capped.ran("late"),
        capped.events(pk),
    )


def test_a_worker_whose_row_was_deleted_registers_again_and_goes_on(fleet: Fleet, end: End):
    go = end()
    running = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started("--lease", "30")  # its heartbeat alone would take ten seconds
    fleet.wait_for_run("a")
    fleet.rows("DELETE FROM django_jobs_worker")
    more = fleet.put_one("tests.tasks.mark", "b")
    fleet.ring()
    fleet.wait_for_state(more, "succeeded", seconds=5)
    go.touch()
    fleet.wait_for_state(running, "succeeded")
    assert [worker.pid] == fleet.rows("SELECT pid FROM django_jobs_worker")
    assert {1} == {fleet.job(running).attempt, fleet.job(more).attempt}
    assert 0 == fleet.stop(worker)


def test_a_worker_goes_on_after_somebody_truncated_every_table(fleet: Fleet, end: End):
    """As a TransactionTestCase of the site does at its end."""
    go = end()
    fleet.put("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started()
    fleet.wait_for_run("a")
    fleet.rows("TRUNCATE django_jobs_worker, django_jobs_lease, django_jobs_job")
    go.touch()
    wait_for(lambda: "void" in worker.log(), what=worker.log())
    pk = fleet.put_one("tests.tasks.mark", "b")
    fleet.wait_for_state(pk, "succeeded")
    assert (0, 1) == (fleet.stop(worker), fleet.ran("b"))
