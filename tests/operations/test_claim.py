"""The claim against the database: what it takes, what it leaves, and who may race it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from itertools import chain
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_jobs.models import Event, Job, Lease, Queue, Worker
from django_jobs.operations.claim import Claimed
from django_jobs.operations.renew import held_leases, raise_epoch
from django_jobs.planner import Lane, Turns
from django_jobs.worker.connection import PrivateDatabase
from tests import backends
from tests.processes import wait_for
from tests.worlds import HERE, Session, add, finish, lanes, register, take

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


# What a claim writes and brings.


@pytest.mark.django_db
def test_a_claim_counts_the_attempt_and_makes_a_lease():
    worker, [job] = register(), add("a")
    [claimed] = take(lanes("a"), room=1, worker=worker).jobs
    lease = Lease.objects.get()
    row = Job.objects.get()
    assert (claimed.lease, job, worker) == (lease.pk, lease.job_id, lease.worker)
    assert ("running", 1, [str(worker)]) == (row.state, row.attempt, row.worker_ids)
    left = lease.expires_at - timezone.now()
    assert timedelta(seconds=25) < left <= timedelta(seconds=30)


@pytest.mark.django_db
def test_a_claim_brings_each_column_in_its_field():
    plain = {
        "priority": 3,
        "suspect": True,
        "metadata": {"a": 1},
        "run_after": timezone.now(),
        "attempt": 1,
        "max_attempts": 7,
        "life": 2,
        "backoff": "linear",
        "backoff_base": 1.5,
        "backoff_cap": 2.5,
        "backoff_jitter": 0.5,
        "retry_on": ["x.Y"],
        "give_up_on": ["y.Z"],
        "keep_dead": False,
        "idempotent": False,
        "worker_ids": ["before"],
        "started_at": timezone.now() - timedelta(hours=1),
        "args": [1],
        "kwargs": {"b": [2]},
    }
    add("a", **plain)
    lane = Lane("a", 8, 0, 0, 1, 0, suspect=True)
    [claimed] = take([lane], room=1, worker=register()).jobs
    row = Job.objects.get()
    as_text = {"args": "[1]", "kwargs": '{"b":[2]}', "metadata": '{"a":1}'}
    expected = {
        field.name: getattr(row, field.name)
        for field in fields(Claimed)
        if field.name not in {"lease", "errors", *as_text}
    }
    got = {name: getattr(claimed, name) for name in expected}
    assert expected == got
    assert as_text == {name: getattr(claimed, name) for name in as_text}
    assert plain["started_at"] == claimed.started_at < claimed.last_attempted_at


@pytest.mark.django_db
def test_a_claim_brings_the_errors_of_this_life():
    [job] = add("a", attempt=3, life=2, max_attempts=9)
    for life, kind, data in [
        (1, "failed", "old"),
        (2, "failed", "one"),
        (2, "handed_back", "no"),
        (2, "rescued", "two"),
    ]:
        Event.objects.create(job_id=job, kind=kind, attempt=1, life=life, data=data)
    [claimed] = take(lanes("a"), room=1, worker=register()).jobs
    assert ['"one"', '"two"'] == claimed.errors


@pytest.mark.django_db
def test_a_first_attempt_has_no_errors():
    add("a")
    [claimed] = take(lanes("a"), room=1, worker=register()).jobs
    assert claimed.errors is None


@pytest.mark.django_db
def test_nothing_ready_is_seen_as_nothing():
    got = take(lanes("a", "b"), room=5, worker=register())
    assert (True, 0, [], None, []) == (got.known, got.seen, got.lost, got.clock, got.jobs)


@pytest.mark.django_db
def test_no_lane_is_no_job():
    add("a")
    got = take([], room=5, worker=register())
    assert (True, 0, []) == (got.known, got.seen, got.jobs)


@pytest.mark.django_db
def test_a_claim_is_one_statement_whatever_the_number_of_queues(django_assert_num_queries):
    queues = [f"q{n}" for n in range(20)]
    for queue in queues:
        add(queue, 2)
    worker = register()
    with django_assert_num_queries(1):
        got = take(lanes(*queues), room=20, worker=worker)
    assert queues == [job.queue for job in got.jobs]


@pytest.mark.django_db
def test_a_claims_commit_waits_for_no_disk():
    add("a")
    with connection.cursor() as cursor:
        take(lanes("a"), room=1, worker=register())
        cursor.execute("SHOW synchronous_commit")
        assert ("off",) == cursor.fetchone()


# What an operator says of a queue holds at once.


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("paused", "hours", "count"),
    [(True, None, 0), (True, 1, 0), (True, -1, 2), (False, None, 2), (False, 1, 2)],
)
def test_a_paused_queue_is_passed_over_until_the_pause_ends(paused, hours, count):
    until = None if hours is None else timezone.now() + timedelta(hours=hours)
    Queue.objects.create(name="a", paused=paused, paused_until=until)
    add("a", 2)
    got = take(lanes("a"), room=5, worker=register())
    assert (count, count) == (len(got.jobs), got.seen)


@pytest.mark.django_db
@pytest.mark.parametrize(("slots", "held", "count"), [(0, 0, 0), (2, 1, 1), (3, 0, 3), (9, 8, 1)])
def test_an_operators_slots_go_before_the_settings(slots, held, count):
    Queue.objects.create(name="a", slots=slots)
    add("a", 5)
    assert count == len(take(lanes("a", slots=4, held=held), room=5, worker=register()).jobs)


@pytest.mark.django_db
def test_a_word_on_another_backends_queue_of_that_name_means_nothing():
    Queue.objects.create(backend="other", name="a", paused=True, slots=0)
    add("a")
    assert 1 == len(take(lanes("a"), room=5, worker=register()).jobs)


@pytest.mark.django_db
def test_only_this_backends_ready_jobs_of_these_lanes_are_taken():
    now = timezone.now()
    add("a", backend="other")
    add("a", placement=1)
    add("a", suspect=True)
    add("b")
    add("a", state="scheduled", run_after=now)
    for name in ("waiting", "blocked"):
        add("a", state=name)
    add("a", state="dead", finished_at=now)
    got = take(lanes("a"), room=50, worker=register())
    assert (0, []) == (got.seen, got.jobs)


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
            turns.advance(got.cards, got.clock)
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


@pytest.mark.django_db
@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_claim_with_another_epoch_takes_nothing(epoch):
    worker, _ = register(epoch=2), add("a")
    got = take(lanes("a"), room=1, worker=worker, epoch=epoch)
    assert (False, 0, []) == (got.known, got.seen, got.jobs)
    assert not Lease.objects.exists()


@pytest.mark.django_db
def test_a_claim_of_a_worker_whose_row_is_gone_takes_nothing():
    worker, _ = register(), add("a")
    Worker.objects.all().delete()
    got = take(lanes("a"), room=1, worker=worker)
    assert (False, 0, []) == (got.known, got.seen, got.jobs)
    assert not Lease.objects.exists()


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


# The bound, whatever the plan.

ROWS = """
    INSERT INTO django_jobs_job (task, queue)
    SELECT 'tests.tasks.ok', (ARRAY['a', 'b'])[n %% 2 + 1] FROM generate_series(1, %s) n
"""


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_a_claim_takes_at_most_its_room_whatever_the_plan(transactional_db, mode):
    """With statistics of an empty table, and the planner denied what it would choose."""
    worker = register()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_jobs_job")
        cursor.execute(ROWS, [10_000])
    database = PrivateDatabase("default", purpose="claims")
    for name in ("enable_hashagg", "enable_hashjoin", "enable_sort"):
        database.connection().execute(f"SET {name} = off")
    database.connection().execute(f"SET plan_cache_mode = {mode}")
    got = [take(lanes("a", "b"), room=3, worker=worker, database=database) for _ in range(500)]
    database.close()
    assert [3] * 500 == [len(one.jobs) for one in got]
    assert 1500 == Lease.objects.count() == Job.objects.filter(state="running").count()


@pytest.mark.django_db
def test_what_is_held_and_what_is_claimed_never_exceed_cap_and_slots():
    worker, turns = register(), Turns({"a": 3})
    cap, slots = 7, {"a": 2, "b": 4, "c": 3}
    for queue in slots:
        add(queue, 30)
    held: list[Claimed] = []
    for number in range(40):
        mine = Counter(job.queue for job in held)
        offered = [
            Lane(q, slots[q], mine[q], turns.served(q), turns.cost(q), turn)
            for turn, q in enumerate(slots)
        ]
        got = take(offered, room=cap - len(held), worker=worker)
        turns.advance(got.cards, got.clock or 0)
        held += got.jobs
        assert len(held) == Lease.objects.count() <= cap
        assert all(n <= slots[q] for q, n in Counter(job.queue for job in held).items())
        ended, held = held[: number % 4], held[number % 4 :]
        finish(ended, worker=worker)
    everything = chain(held, Job.objects.filter(state="succeeded"))
    assert {"a", "b", "c"} == {job.queue for job in everything}
