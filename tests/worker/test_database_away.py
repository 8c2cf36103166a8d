"""Connections break, servers stop and hang: work goes on where it was, nothing is lost."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import Process, wait_for
from tests.proxy import Proxy
from tests.worker.fleet import LEASE, Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
SECONDS = 5.0  # within which work goes on once the database is back


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail when the body takes longer."""
    begun = time.monotonic()
    yield
    took = time.monotonic() - begun
    assert took <= seconds, f"It took {took:.1f} s."


def healthy(worker: Process) -> bool:
    """Whether a worker lives and no thread of it has died."""
    return worker.popen.poll() is None and "Traceback" not in worker.log()


def test_every_session_may_be_terminated_at_any_point(fleet: Fleet, end: End):
    worker = fleet.idle()
    assert fleet.end_sessions() >= 4  # idle
    with within(SECONDS):
        pk = fleet.put_one("tests.tasks.mark", "idle")
        fleet.wait_for_state(pk, "succeeded")
    with fleet.connect() as holder, holder.transaction():  # in the middle of a claim
        holder.execute("SELECT FROM django_jobs_worker FOR UPDATE")
        pk = fleet.put_one("tests.tasks.mark", "claim")
        fleet.wait(
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND application_name = 'jobworker loop'"
        )
        fleet.end_sessions()
    with within(SECONDS):
        fleet.wait_for_state(pk, "succeeded")
    go = end()
    during = fleet.put_one("tests.worker.tasks.until", "job", str(go))
    fleet.wait_for_run("job")
    fleet.end_sessions()  # in the middle of a job
    with within(SECONDS):
        fleet.wait_for_state(fleet.put_one("tests.tasks.mark", "beside"), "succeeded")
        go.touch()
        fleet.wait_for_state(during, "succeeded")
    assert healthy(worker), worker.log()
    assert 0 == fleet.stop(worker)
    assert [(1, 1)] == fleet.rows(
        "SELECT DISTINCT attempt, cardinality(worker_ids) FROM django_jobs_job"
    )
    assert [1, 1, 1, 1] == [fleet.ran(key) for key in ("idle", "claim", "job", "beside")]
    assert [] == fleet.lines("ERROR")


def test_a_session_that_ends_during_a_settle_repeats_it(fleet: Fleet, end: End):
    fleet.rows("""
        CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep(0.5); RETURN OLD; END $$;
        CREATE TRIGGER slow BEFORE DELETE ON django_jobs_lease
            FOR EACH ROW EXECUTE FUNCTION slow();
    """)
    try:
        pk = fleet.put_one("tests.tasks.mark", "a")
        worker = fleet.started()
        fleet.wait(
            "SELECT count(*) > 0 FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event = 'PgSleep'"
        )
        fleet.end_sessions()
        fleet.wait_for_state(pk, "succeeded", seconds=SECONDS)
        assert 0 == fleet.stop(worker)
    finally:
        fleet.rows("DROP FUNCTION slow CASCADE")
    assert (1, 1, []) == (fleet.ran("a"), fleet.job(pk).attempt, fleet.events(pk))


@pytest.mark.slow
def test_a_server_that_crashed_and_is_away_for_three_leases_loses_nothing(
    fleet: Fleet, proxy: Proxy, end: End
):
    """The jobs ran on; nobody rescues them before their worker had time to come back."""
    go = end()
    pks = fleet.put("tests.worker.tasks.until", "a", str(go), count=3)
    workers = [fleet.started(port=proxy.port)]
    fleet.wait_for_run("a", 3)
    workers.append(fleet.started())
    fleet.server.stop("immediate")
    try:
        begun = time.monotonic()
        wait_for(lambda: time.monotonic() - begun > 3 * LEASE)
        proxy.refusing = True
    finally:
        fleet.server.start()
    with within(SECONDS):
        fleet.wait(  # the other one is back first
            "SELECT seen_at > clock_timestamp() - interval '1 s' FROM django_jobs_worker"
            " WHERE pid = %s",
            workers[1].pid,
        )
        time.sleep(0.5)  # it would have rescued by now
        proxy.refusing = False
        fleet.wait_for_state(fleet.put_one("tests.tasks.mark", "after"), "succeeded")
        fleet.wait(
            "SELECT bool_and(expires_at > clock_timestamp() AND NOT graced) FROM django_jobs_lease"
        )
    go.touch()
    fleet.wait_for_all()
    assert 3 == fleet.ran("a")
    assert {(1, ())} == {(fleet.job(pk).attempt, tuple(fleet.events(pk))) for pk in pks}
    for worker in workers:
        assert healthy(worker), worker.log()
        assert 0 == fleet.stop(worker)
        assert len(worker.log().splitlines()) < 100, "an outage must not flood the log"
    assert [] == fleet.lines("ERROR")


def test_a_job_that_ends_while_the_server_is_away_is_settled_when_it_is_back(
    fleet: Fleet, end: End
):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started(NOTE_SIGNALS="1", LABEL="A")
    fleet.wait_for_run("a")
    fleet.server.stop()
    go.touch()
    worker.wait_for_log("pass failed")
    fleet.server.start()
    fleet.wait_for_state(pk, "succeeded", seconds=SECONDS)
    fleet.wait_for_run(f"finished {pk}")
    assert (1, "A") == (fleet.ran("a"), fleet.job(pk).result)
    assert 0 == fleet.stop(worker)


def test_a_server_that_turns_read_only_is_left_and_found_again(fleet: Fleet, end: End):
    go = end()
    during = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started()
    fleet.wait_for_run("a")
    waiting = fleet.put_one("tests.tasks.mark", "b", run_after="2020-01-01", state="scheduled")
    fleet.set("default_transaction_read_only", "on")
    try:
        fleet.end_sessions()
        go.touch()
        worker.wait_for_log("read-only transaction")
    finally:
        fleet.rows("SET default_transaction_read_only = off")
        fleet.set("default_transaction_read_only", None)
    with within(SECONDS):
        fleet.wait_for_state(during, "succeeded")
        fleet.wait_for_state(waiting, "succeeded")
    assert 0 == fleet.stop(worker)
    assert [] == fleet.rows("SELECT id FROM django_jobs_event WHERE kind IN ('failed', 'dead')")


@pytest.mark.slow
def test_no_session_of_a_worker_stays_in_a_transaction(fleet: Fleet, end: End):
    """So neither a limit on idle transactions nor one on idle sessions ends a job."""
    go = end()
    fleet.set("idle_in_transaction_session_timeout", "300ms")
    fleet.set("idle_session_timeout", "700ms")
    try:
        pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
        worker = fleet.started()
        fleet.wait_for_run("a")
        for number in range(3):
            begun = time.monotonic()
            while time.monotonic() - begun < 0.9:
                assert [] == fleet.rows(
                    "SELECT application_name FROM pg_stat_activity"
                    " WHERE datname = current_database() AND state LIKE 'idle in transaction%%'"
                    " AND xact_start < clock_timestamp() - interval '100 ms'"
                )
                time.sleep(0.02)
            fleet.wait_for_state(
                fleet.put_one("tests.worker.tasks.write", f"w{number}"), "succeeded"
            )
        go.touch()
        fleet.wait_for_state(pk, "succeeded")
        assert 0 == fleet.stop(worker)
    finally:
        fleet.set("idle_in_transaction_session_timeout", None)
        fleet.set("idle_session_timeout", None)
    assert {"succeeded": 4} == fleet.states()
    assert [] == fleet.rows("SELECT id FROM django_jobs_event")


def test_too_few_connections_are_waited_for(fleet: Fleet):
    """Each job takes a connection of its thread; the server has room for few of them."""
    fleet.rows("ALTER DATABASE fleet CONNECTION LIMIT 20")
    fleet.rows("CREATE ROLE plain LOGIN")
    fleet.rows("GRANT ALL ON ALL TABLES IN SCHEMA public TO plain")
    fleet.rows("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO plain")
    url = fleet.url(user="plain")  # a superuser is not counted
    try:
        pks = fleet.put("tests.tasks.query", 0.2, count=60, max_attempts=1000)
        workers = [fleet.worker("--max-in-flight", "16", DATABASE_URL=url) for _ in range(3)]
        fleet.wait_for_all(seconds=40)
        assert all(worker.popen.poll() is None for worker in workers), fleet.logs()
        assert 60 == len(pks)
        assert "too many connections" in fleet.logs()
        assert [0, 0, 0] == [fleet.stop(worker) for worker in workers]
    finally:
        fleet.rows("ALTER DATABASE fleet CONNECTION LIMIT -1")
        fleet.end_sessions(".*")
        fleet.rows("DROP OWNED BY plain")
        fleet.rows("DROP ROLE plain")


def test_what_a_task_leaves_of_its_connection_meets_no_next_job(fleet: Fleet):
    worker = fleet.started("--max-in-flight", "1")
    for kind in ("autocommit off", "open transaction", "swallowed", "closed"):
        first = fleet.put_one("tests.worker.tasks.leave_transaction", kind)
        after = fleet.put("tests.worker.tasks.write", f"after {kind}", count=3)
        fleet.ring()
        fleet.wait_for_state(first, "succeeded", "dead")
        fleet.wait(
            "SELECT bool_and(state = 'succeeded') FROM django_jobs_job WHERE id = ANY (%s)", after
        )
        assert (3, 0) == (fleet.ran(f"after {kind}"), fleet.ran(kind))
    warned = re.findall(r"task (\S+) left a transaction open", worker.log())
    assert ["tests.worker.tasks.leave_transaction"] * 3 == warned
    assert 0 == fleet.stop(worker)


def test_a_worker_cut_off_for_three_leases_claims_nothing_and_its_outcome_is_void(
    fleet: Fleet, proxy: Proxy, end: End
):
    go, go_async, free = end(), end(), end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    async_pk = fleet.put_one("tests.worker.tasks.auntil", "b", str(go_async))
    first = fleet.started("--lease", "2", port=proxy.port, LABEL="A")
    fleet.wait_for_run("a")
    fleet.wait_for_run("b")
    proxy.drop()
    second = fleet.started("--lease", "2", LABEL="B")
    wait_for(Path(f"{go}.lost.A").exists, what="the run was not told")
    fleet.wait_for_run("a", 2)
    go.touch()
    fleet.wait_for_run("b", 2)  # only now: a worker holds one suspect at a time
    go_async.touch()
    fleet.wait_for_all()
    more = fleet.put_one("tests.worker.tasks.until", "c", str(free))
    fleet.wait_for_run("c")
    proxy.restore()
    first.wait_for_log("the outcome of job", seconds=30)
    for each in (pk, async_pk):
        job = fleet.job(each)
        assert ("succeeded", 2, "B", ["rescued"]) == (
            job.state,
            job.attempt,
            job.result,
            fleet.events(each),
        )
    assert f"lost lease: the outcome of job {pk} is void" in first.log()
    free.touch()
    fleet.wait_for_state(more, "succeeded")
    assert "B" == fleet.job(more).result
    assert (0, 0) == (fleet.stop(first), fleet.stop(second))


def test_a_coroutine_whose_lease_was_lost_is_cancelled(fleet: Fleet, proxy: Proxy, end: End):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.auntil", "b", str(go))
    first = fleet.started("--lease", "2", "--no-listen", port=proxy.port, LABEL="A")
    fleet.wait_for_run("b")
    fleet.rows("DELETE FROM django_jobs_lease")  # as a rescue does
    fleet.rows("UPDATE django_jobs_job SET state = 'scheduled', run_after = now() + '1 h'")
    wait_for(Path(f"{go}.cancelled.A").exists, what=first.log())
    first.wait_for_log(f"job {pk} lost its lease")
    assert "scheduled" == fleet.job(pk).state
    assert 0 == fleet.stop(first)


def test_a_line_that_dies_inside_a_claim_holds_its_jobs_for_a_lease_at_most(
    fleet: Fleet, proxy: Proxy
):
    lost = proxy.lose_answer("INSERT INTO django_jobs_lease")
    pks = fleet.put("tests.tasks.mark", "a", count=6)
    first = fleet.started("--lease", "2", port=proxy.port)
    assert lost.wait(5)
    first.freeze()
    second = fleet.started("--lease", "2")
    fleet.wait_for_all()
    first.kill()
    assert 6 == fleet.ran("a") == len(pks)
    assert 0 == fleet.stop(second)


def test_an_end_is_announced_although_the_announcers_line_broke(fleet: Fleet):
    worker = fleet.started(NOTE_SIGNALS="1")
    for _ in range(3):
        pk = fleet.put_one("tests.worker.tasks.fail", max_attempts=1)
        fleet.ring()
        fleet.wait_for_run(f"finished {pk}", seconds=5)
        fleet.end_sessions("^(?!jobworker ledger)")
    assert 0 == fleet.stop(worker)


def test_a_line_that_breaks_while_a_worker_starts_is_replaced(fleet: Fleet, proxy: Proxy):
    pk = fleet.put_one("tests.tasks.ok")
    lost = proxy.lose_answer('FROM "django_migrations"')
    worker = fleet.worker(port=proxy.port)
    assert lost.wait(10)
    fleet.wait_for_state(pk, "succeeded", seconds=SECONDS)
    assert "cannot reach the database" in worker.log()
    assert 0 == fleet.stop(worker)
