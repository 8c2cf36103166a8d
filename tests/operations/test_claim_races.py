"""Claims that race each other, an operator, a rising epoch and their own death."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_jobs.models import Event, Job, Lease, Worker
from django_jobs.operations.renew import held_leases, raise_epoch
from django_jobs.planner import Lane, Turns
from tests import backends
from tests.processes import wait_for
from tests.worlds import HERE, Session, add, lanes, register, take

Start = Callable[[Callable[[Session], Any]], "Future[Any]"]


@pytest.fixture
def other(second_connection: BaseDatabaseWrapper) -> Session:
    """Another worker's session, in autocommit."""
    return Session(second_connection)


@pytest.fixture
def elsewhere(transactional_db: None) -> Iterator[Start]:
    """Call with a session of its own in another thread; return once it waits for a lock."""
    with ThreadPoolExecutor(1) as pool:

        def start(call: Callable[[Session], Any]) -> Future[Any]:
            pids: SimpleQueue[int] = SimpleQueue()
            future = pool.submit(_call, call, pids)
            pid = pids.get(timeout=5)
            wait_for(lambda: future.done() or waits(pid), what=f"{pid} waits for no lock")
            assert not future.done()
            return future

        yield start


def _call(call: Callable[[Session], Any], pids: SimpleQueue[int]) -> Any:
    with backends.opened() as opened:
        session = Session(opened)
        pids.put(session.backend_pid())
        return call(session)


def waits(pid: int) -> bool:
    """Tell whether a lock that somebody holds keeps ``pid`` waiting."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid])
        return bool(cursor.fetchone()[0])


@contextmanager
def locked(table: type[Job | Worker], *ids: object, strength: str = "UPDATE") -> Iterator[None]:
    """Hold rows in this thread's transaction."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id FROM {table._meta.db_table} WHERE id = ANY (%s) FOR {strength}",
            [list(ids)],
        )
        assert len(ids) == len(cursor.fetchall())
        yield


def state(*ids: int) -> list[tuple[str, int]]:
    return list(Job.objects.filter(pk__in=ids).order_by("pk").values_list("state", "attempt"))


# Two workers.


def test_claim_skips_jobs_another_worker_is_claiming(other):
    mine, theirs = register(), register()
    ids = add("a", 4)
    with transaction.atomic():
        first = take(lanes("a"), room=2, worker=mine)
        second = take(lanes("a"), room=2, worker=theirs, database=other)
        assert ids[:2] == [job.id for job in first.jobs]
        assert ids[2:] == [job.id for job in second.jobs]
    assert [("running", 1)] * 4 == state(*ids)


def test_a_claim_with_room_1_leaves_the_other_queues_jobs_to_others(other):
    mine, theirs = register(), register()
    ids = [pk for queue in "abc" for pk in add(queue)]
    with transaction.atomic():
        assert ids[:1] == [job.id for job in take(lanes(*"abc"), room=1, worker=mine).jobs]
        got = take(lanes(*"abc"), room=3, worker=theirs, database=other)
        assert ids[1:] == [job.id for job in got.jobs]


def test_a_claim_that_lost_its_rows_says_so(other):
    """So that who lost a race does not think the queue empty, and go to sleep."""
    mine, theirs = register(), register()
    add("a")
    with transaction.atomic():
        take(lanes("a"), room=1, worker=mine)
        got = take(lanes("a"), room=1, worker=theirs, database=other)
        assert (True, 1, ["a"], []) == (got.known, got.seen, got.lost, got.jobs)
    got = take(lanes("a"), room=1, worker=theirs, database=other)
    assert (0, []) == (got.seen, got.lost)


def test_a_queue_whose_only_job_is_locked_keeps_no_other_queue_back(other):
    """At cap 1 the lost card has had its turn: else a and the lock are all there is."""
    worker, turns = register(), Turns({})
    locked_job, *_ = [pk for queue in "abc" for pk in add(queue)]
    ran = []
    with locked(Job, locked_job):
        for _ in range(4):
            offered = [Lane(q, 1, 0, turns.served(q), 1, turn) for turn, q in enumerate("abc")]
            got = take(offered, room=1, worker=worker, database=other)
            turns.advance(got.cards, got.clock or 0)
            ran += [job.queue for job in got.jobs]
    assert ["b", "c"] == ran


def test_a_claim_under_way_takes_nothing_that_another_took_meanwhile(elsewhere):
    """It has looked already, with its snapshot: judged is what it then locks."""
    slow, fast = register(), register()
    ids = add("a", 3)
    with locked(Worker, slow):
        future = elsewhere(lambda session: take(lanes("a"), room=3, worker=slow, database=session))
        with backends.opened() as opened:
            took = take(lanes("a"), room=2, worker=fast, database=Session(opened))
    got = future.result(5)
    assert ids[:2] == [job.id for job in took.jobs]
    assert (ids[2:], 3) == ([job.id for job in got.jobs], got.seen)
    assert ["a", "a"] == got.lost
    assert [("running", 1)] * 3 == state(*ids)


@pytest.mark.parametrize("change", [{"state": "blocked"}, {"queue": "b"}, {"suspect": True}])
def test_a_claim_under_way_takes_no_job_that_left_its_lane_meanwhile(elsewhere, change):
    worker, [job] = register(), add("a")
    with locked(Worker, worker):
        future = elsewhere(
            lambda session: take(lanes("a"), room=1, worker=worker, database=session)
        )
        with backends.opened() as opened, opened.cursor() as cursor:
            [(column, value)] = change.items()
            cursor.execute(f"UPDATE django_jobs_job SET {column} = %s WHERE id = %s", [value, job])
    got = future.result(5)
    assert (1, ["a"], []) == (got.seen, got.lost, got.jobs)
    assert not Lease.objects.exists()


def test_a_transaction_that_tells_events_hides_no_job(other):
    worker, ids = register(), add("a", 2)
    with transaction.atomic():
        for pk in ids:
            Event.objects.create(job_id=pk, kind="failed", attempt=1, life=1)
        got = take(lanes("a"), room=2, worker=worker, database=other)
        assert ids == [job.id for job in got.jobs]


def test_a_row_of_the_sites_own_that_refers_to_a_job_does_not_hide_it(other):
    """A foreign key takes FOR KEY SHARE on the job for as long as its transaction lasts."""
    worker, ids = register(), add("a", 2)
    with locked(Job, *ids, strength="KEY SHARE"):
        got = take(lanes("a"), room=2, worker=worker, database=other)
        assert ids == [job.id for job in got.jobs]


def test_a_heartbeat_under_way_does_not_hold_a_claim_up(other):
    worker, _ = register(), add("a")
    with transaction.atomic():
        Worker.objects.filter(pk=worker).update(seen_at=timezone.now())
        assert 1 == len(take(lanes("a"), room=1, worker=worker, database=other).jobs)


# The claim's own fence.


def test_a_claim_under_way_while_the_epoch_rises_takes_nothing(elsewhere):
    worker, [job] = register(), add("a")
    with transaction.atomic():
        assert 2 == raise_epoch(worker=worker, database=HERE)
        future = elsewhere(
            lambda session: take(lanes("a"), room=1, worker=worker, database=session)
        )
    got = future.result(5)
    assert (False, []) == (got.known, got.jobs)
    assert [("ready", 0)] == state(job)


def test_a_claim_under_way_while_its_workers_row_is_deleted_takes_nothing(elsewhere):
    worker, [job] = register(), add("a")
    with transaction.atomic():
        Worker.objects.filter(pk=worker).delete()
        future = elsewhere(
            lambda session: take(lanes("a"), room=1, worker=worker, database=session)
        )
    got = future.result(5)
    assert (False, []) == (got.known, got.jobs)
    assert [("ready", 0)] == state(job)


def test_the_epoch_rises_only_after_a_claim_of_its_own_that_is_under_way(elsewhere):
    """Then the list of what is held, which is read next, is complete."""
    worker, [job] = register(), add("a")

    def recover(session: Session) -> list[int]:
        raise_epoch(worker=worker, database=session)
        return list(held_leases(worker=worker, database=session).values())

    with transaction.atomic():
        take(lanes("a"), room=1, worker=worker)
        future = elsewhere(recover)
    assert [job] == future.result(5)


# Death in the middle.


def test_a_claim_that_dies_before_its_commit_has_taken_nothing(other):
    worker, ids = register(), add("a", 3)
    other.connection.set_autocommit(False)
    pid = other.backend_pid()
    assert 2 == len(take(lanes("a"), room=2, worker=worker, database=other).jobs)
    _kill(pid)
    with pytest.raises(OperationalError):
        other.connection.commit()
    assert [("ready", 0)] * 3 == state(*ids)
    assert not Lease.objects.exists()
    assert ids == [job.id for job in take(lanes("a"), room=3, worker=worker).jobs]


def test_a_claim_that_dies_in_its_statement_has_taken_nothing(elsewhere):
    worker, [job] = register(), add("a")
    with locked(Worker, worker):
        pids: SimpleQueue[int] = SimpleQueue()

        def dying(session: Session) -> object:
            pids.put(session.backend_pid())
            return take(lanes("a"), room=1, worker=worker, database=session)

        future = elsewhere(dying)
        _kill(pids.get())
        with pytest.raises((OperationalError, psycopg.Error)):
            future.result(5)
    assert [("ready", 0)] == state(job)
    assert not Lease.objects.exists()


def _kill(pid: int) -> None:
    """End a session and see it gone; a transaction would see what was at its start."""
    with backends.opened() as opened, opened.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s)"

        def is_gone() -> bool:
            cursor.execute(gone, [pid])
            return bool(cursor.fetchone()[0])

        wait_for(is_gone)
