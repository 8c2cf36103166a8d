"""Enqueues and requeues that race for a unique key: one live job, and no IntegrityError."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from django_jobs.compat import task_enqueued, task_finished
from django_jobs.exceptions import AlreadyEnqueued, UnknownParent
from django_jobs.models import Activity, Event, Job
from django_jobs.operations import act as act_module
from django_jobs.operations import enqueue as enqueue_module
from django_jobs.operations import requeue as requeue_module
from django_jobs.operations.promote import promote
from django_jobs.operations.requeue import Requeued, requeue
from django_jobs.operations.run_now import RunNow, run_now
from django_jobs.sql import SiteDatabase
from tests.operations.desk import desks, job_row
from tests.operations.ended import ANA, ended
from tests.operations.racers import KEY
from tests.processes import JobWorkers, wait_for
from tests.sample_tasks import add

pytestmark = pytest.mark.django_db(transaction=True)

RACERS = int(os.environ.get("DJANGO_JOBS_RACERS", "4"))  # processes; 16 in the long form
RACES = int(os.environ.get("DJANGO_JOBS_RACES", "50"))  # enqueues of each; 200 in the long form

once: Any = add.using(unique="{a}")
strict: Any = once.using(on_conflict="raise")
newest: Any = once.using(on_conflict="replace")

Start = Callable[[Callable[[], Any]], "Future[Any]"]


@pytest.fixture
def elsewhere(transactional_db: None) -> Iterator[Start]:
    """Call in another thread, so in another session; return once it waits for a lock."""
    with ThreadPoolExecutor(1) as pool:

        def start(call: Callable[[], Any]) -> Future[Any]:
            pids: SimpleQueue[int] = SimpleQueue()
            future = pool.submit(_call, call, pids)
            pid = pids.get(timeout=5)
            wait_for(lambda: future.done() or _waits(pid), what=f"{pid} waits for no lock")
            assert not future.done(), future.exception() or future.result()
            return future

        yield start


def _call(call: Callable[[], Any], pids: SimpleQueue[int]) -> Any:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '20s'")  # the suite's own is for what must not wait
            cursor.execute("SELECT pg_backend_pid()")
            pids.put(cursor.fetchone()[0])
        return call()
    finally:
        connections.close_all()


def _waits(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid])
        return bool(cursor.fetchone()[0])


def live(key: object = None) -> list[str]:
    """The ids of the live jobs, of one key or of all."""
    found = Job.objects.live() if key is None else Job.objects.live().filter(unique_key=key)
    return [str(pk) for pk in found.order_by("id").values_list("pk", flat=True)]


# One enqueue against one.


def test_the_loser_of_a_race_gets_the_winners_job(elsewhere):
    with transaction.atomic():
        won = once.enqueue("k")
        future = elsewhere(lambda: once.enqueue("k", b=2))
    lost = future.result(5)
    assert (won.id, False, ["k"], {}) == (lost.id, lost.created, lost.args, lost.kwargs)
    assert [won.id] == live()


def test_the_losers_transaction_stays_usable(elsewhere):
    def lose() -> list[Any]:
        with transaction.atomic():
            lost = once.enqueue("k")
            other = add.enqueue(1)
            return [lost.id, lost.created, other.id]

    with transaction.atomic():
        won = once.enqueue("k")
        future = elsewhere(lose)
    lost, created, other = future.result(5)
    assert (won.id, False) == (lost, created)
    assert [won.id, other] == live()


@pytest.mark.parametrize("task", [once, strict, newest], ids=["return", "raise", "replace"])
def test_the_loser_of_a_race_whose_winner_rolls_back_is_enqueued(elsewhere, task):
    with transaction.atomic():
        once.enqueue("k")
        future = elsewhere(lambda: task.enqueue("k"))
        transaction.set_rollback(True)
    lost = future.result(5)
    assert lost.created
    assert [lost.id] == live()


def test_the_loser_of_a_race_whose_winner_rolls_back_to_a_savepoint_is_enqueued(elsewhere):
    with transaction.atomic():
        with transaction.atomic():
            once.enqueue("k")
            future = elsewhere(lambda: once.enqueue("k"))
            transaction.set_rollback(True)
        assert future.result(5).created
    assert 1 == len(live())


def test_raise_tells_the_loser_of_the_winner(elsewhere):
    with transaction.atomic():
        won = once.enqueue("k")
        future = elsewhere(lambda: strict.enqueue("k"))
    with pytest.raises(AlreadyEnqueued) as got:
        future.result(5)
    assert ("k", won.id) == (got.value.key, got.value.job)


def test_replace_replaces_the_winner_it_lost_to(elsewhere):
    with transaction.atomic():
        won = once.enqueue("k")
        future = elsewhere(lambda: newest.enqueue("k"))
    lost = future.result(5)
    assert [lost.id] == live()
    assert "cancelled" == job_row(int(won.id)).state


# Replace against what changes the job meanwhile.


def test_two_that_replace_one_job_leave_one(elsewhere):
    first = once.enqueue("k")
    with transaction.atomic():
        second = newest.enqueue("k")
        future = elsewhere(lambda: newest.enqueue("k"))
    third = future.result(5)
    assert [third.id] == live()
    assert [int(first.id), int(second.id)] == list(
        Event.objects.filter(kind="cancelled").order_by("id").values_list("job_id", flat=True)
    )


def test_replace_waits_out_a_replace_that_is_rolled_back(elsewhere):
    first = once.enqueue("k")
    with transaction.atomic():
        newest.enqueue("k")
        future = elsewhere(lambda: newest.enqueue("k"))
        transaction.set_rollback(True)
    second = future.result(5)
    assert [second.id] == live()
    assert [int(first.id)] == list(Event.objects.values_list("job_id", flat=True))


def test_replace_never_cancels_a_job_that_a_worker_claims_meanwhile(elsewhere):
    first = once.enqueue("k")
    with desks("w") as [desk]:
        raw = desk.open()
        with raw.transaction():
            [claimed] = desk.claim()
            future = elsewhere(lambda: newest.enqueue("k"))
    assert int(first.id) == claimed.id
    with pytest.raises(AlreadyEnqueued) as got:
        future.result(5)
    assert first.id == got.value.job
    assert ("running", 0) == (job_row(claimed.id).state, Event.objects.count())


def test_replace_takes_the_place_of_a_job_that_ends_meanwhile(elsewhere):
    first = once.enqueue("k")
    with transaction.atomic():
        Job.objects.filter(pk=first.id).update(state="expired", finished_at="2026-01-01T00:00Z")
        future = elsewhere(lambda: newest.enqueue("k"))
    second = future.result(5)
    assert [second.id] == live()
    assert "expired" == job_row(int(first.id)).state


@pytest.fixture
def ended_with() -> Iterator[list[tuple[str, str]]]:
    """Note the id and state of each task_finished."""
    noted: list[tuple[str, str]] = []

    def note(*, task_result: Any, **_: Any) -> None:
        noted.append((task_result.id, task_result.state))

    task_finished.connect(note)
    yield noted
    task_finished.disconnect(note)


def test_a_replaced_job_is_announced_once_its_end_is_committed(ended_with):
    first = once.enqueue("k")
    with transaction.atomic():
        newest.enqueue("k")
        transaction.set_rollback(True)
    with transaction.atomic():
        newest.enqueue("k")
        assert [] == ended_with
    assert [(first.id, "cancelled")] == ended_with


def test_who_waited_for_a_replaced_job_is_cancelled_with_it(ended_with):
    first = once.enqueue("k")
    waiting = add.using(depends_on=[first]).enqueue(1)
    last = add.using(depends_on=[first], after_failure=True).enqueue(1)
    second = newest.enqueue("k")
    assert [last.id, second.id] == live()
    assert "ready" == job_row(int(last.id)).state
    assert {(first.id, "cancelled"), (waiting.id, "cancelled")} == set(ended_with)


def test_a_job_is_not_replaced_by_one_that_cannot_be_enqueued():
    first = once.enqueue("k")
    with pytest.raises(UnknownParent):
        newest.using(depends_on=["999999"]).enqueue("k")
    assert [first.id] == live()


# What bounds it.


def test_an_enqueue_that_loses_again_and_again_says_so(monkeypatch):
    asked = []

    def lose(_: SiteDatabase, name: str, params: Any) -> list[Any]:
        asked.append(name)
        return [(None, None, None, None, False, None, [], False)]

    monkeypatch.setattr(SiteDatabase, "fetch", lose)
    with pytest.raises(AlreadyEnqueued, match="by other jobs, one after the other") as got:
        once.enqueue("k")
    assert (None, ["enqueue_tied"] * 20) == (got.value.job, asked)


def test_an_enqueue_many_that_loses_again_and_again_inserts_nothing(monkeypatch):
    real = SiteDatabase.fetch

    def lose(self: SiteDatabase, name: str, params: Any) -> list[Any]:
        rows = real(self, name, params)
        return [*rows[:-1], (None, None, None, None, False, 0)] if "many" in name else rows

    monkeypatch.setattr(SiteDatabase, "fetch", lose)
    with pytest.raises(AlreadyEnqueued, match="'l' is taken by other jobs"):
        add.enqueue_many([once.s("k"), once.s("l")])
    assert [] == live()


def test_the_wait_for_a_winner_is_bounded_by_the_callers_lock_timeout():
    """And by nothing else; a savepoint keeps the rest of the transaction."""

    def impatient() -> list[str]:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '10ms'")
            with pytest.raises(OperationalError), transaction.atomic():
                once.enqueue("k")
            return [add.enqueue(1).id]

    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        won = once.enqueue("k")
        ids = pool.submit(_call, impatient, SimpleQueue()).result(5)
    assert sorted([won.id, *ids], key=int) == live()


def test_a_caller_at_repeatable_read_gets_a_serialisation_failure(elsewhere):
    def lose() -> str:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            with pytest.raises(OperationalError) as got:
                once.enqueue("k")
            transaction.set_rollback(True)
            return str(getattr(got.value.__cause__, "sqlstate", None))

    with transaction.atomic():
        won = once.enqueue("k")
        future = elsewhere(lose)
    assert "40001" == future.result(5)
    assert [won.id] == live()


# By the thousand.


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("B", "a"), ("a", "é")])
def test_batches_that_share_keys_cannot_deadlock(elsewhere, monkeypatch, batch, first, second):
    """Keys are taken in one order, by bytes: who waits for the first holds no other."""
    monkeypatch.setattr(enqueue_module, "BATCH", batch)
    with transaction.atomic():
        mine = once.enqueue(first)
        future = elsewhere(lambda: add.enqueue_many([once.s(second), once.s(first)]))
        mine_too = once.enqueue(second)
    assert [mine_too.id, mine.id] == future.result(5)
    assert [mine.id, mine_too.id] == live()


@pytest.mark.parametrize("batch", [1, 1000])
def test_a_batch_that_lost_one_key_is_sent_again_as_a_whole(elsewhere, monkeypatch, batch):
    monkeypatch.setattr(enqueue_module, "BATCH", batch)
    sent: list[str] = []

    def note(*, task_result: Any, **_: Any) -> None:
        sent.append(task_result.id)

    with transaction.atomic():
        won = once.enqueue("b")
        task_enqueued.connect(note)
        future = elsewhere(lambda: add.enqueue_many([once.s("c"), once.s("b"), once.s("a")]))
    ids = future.result(5)
    task_enqueued.disconnect(note)
    assert (won.id, 3) == (ids[1], len(live()))
    assert [ids[0], ids[2]] == sent
    assert [["c"], ["b"], ["a"]] == [job_row(int(pk)).args for pk in ids]


def test_a_batch_that_lost_to_a_rollback_has_all_its_jobs(elsewhere):
    with transaction.atomic():
        once.enqueue("b")
        future = elsewhere(lambda: add.enqueue_many([once.s("a"), once.s("b")]))
        transaction.set_rollback(True)
    assert future.result(5) == live()


def test_a_batch_with_raise_that_loses_a_race_inserts_nothing(elsewhere):
    with transaction.atomic():
        won = once.enqueue("b")
        future = elsewhere(lambda: add.enqueue_many([add.s(1), once.s("a"), strict.s("b")]))
    with pytest.raises(AlreadyEnqueued) as got:
        future.result(5)
    assert ("b", won.id) == (got.value.key, got.value.job)
    assert [won.id] == live()


# Requeue.


def again(*ids: int) -> Requeued:
    return requeue(ids, actor=ANA, database="default")


def test_of_two_dead_jobs_of_one_key_one_is_requeued():
    first, second, free = *ended(2, unique_key="k"), *ended(1)
    assert Requeued(2, {second: "unique key taken"}) == again(first, second, free)
    assert [str(first), str(free)] == live()
    assert [2] == list(Activity.objects.values_list("count", flat=True))
    assert 2 == Event.objects.filter(kind="requeued").count()


def test_a_dead_job_whose_key_a_live_one_has_is_refused_by_name():
    [dead], [other] = ended(unique_key="k"), ended(unique_key="k", backend="second")
    won = once.enqueue("k")
    assert Requeued(1, {dead: "unique key taken"}) == again(dead, other)
    assert [str(other), won.id] == live()


def test_keys_that_are_taken_for_long_cost_no_statement_a_job():
    twins, taken = ended(2, unique_key="k"), ended(2, unique_key="l")
    once.enqueue("l")
    with CaptureQueriesContext(connection) as queries:
        assert 1 == again(*twins, *taken).count
    assert 2 == sum("requeued" in query["sql"] for query in queries)


def test_a_requeued_job_holds_its_key_again():
    [pk] = ended(unique_key="k")
    assert Requeued(1, {}) == again(pk)
    assert (str(pk), False) == (once.enqueue("k").id, once.enqueue("k").created)


def test_a_requeue_waits_a_moment_only_for_a_key_that_is_about_to_be_taken(elsewhere):
    first, second, free = *ended(1, unique_key="k"), *ended(1, unique_key="l"), *ended(1)
    with transaction.atomic():
        once.enqueue("k")
        with ThreadPoolExecutor(1) as pool:
            got = pool.submit(_call, lambda: again(first, second, free), SimpleQueue()).result(5)
    assert Requeued(2, {first: "locked"}) == got
    assert [2] == list(Activity.objects.values_list("count", flat=True))


def test_a_refusal_at_the_end_of_a_batch_begins_no_second_record(monkeypatch):
    monkeypatch.setattr(act_module, "BATCH", 2)
    first, held, last = *ended(1, unique_key="k"), *ended(1, unique_key="l"), *ended(1)
    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        once.enqueue("l")
        got = pool.submit(_call, lambda: again(first, held, last), SimpleQueue()).result(5)
    assert Requeued(2, {held: "locked"}) == got
    assert [2] == list(Activity.objects.values_list("count", flat=True))


@pytest.mark.parametrize(
    ("undone", "found"), [(False, "unique key taken"), (True, None)], ids=["commit", "rollback"]
)
def test_a_requeue_that_races_an_enqueue_surfaces_no_integrity_error(
    elsewhere, monkeypatch, undone, found
):
    monkeypatch.setattr(requeue_module, "PATIENCE", "20s")
    first, second = *ended(1, unique_key="k"), *ended(1, unique_key="l")
    with transaction.atomic():
        once.enqueue("k")
        future = elsewhere(lambda: again(first, second))
        transaction.set_rollback(undone)
    assert Requeued(1 + undone, {} if found is None else {first: found}) == future.result(5)
    assert (1, 1) == (len(live("k")), len(live("l")))


def test_two_requeues_that_race_leave_one_live_job(elsewhere, monkeypatch):
    monkeypatch.setattr(requeue_module, "PATIENCE", "20s")
    first, second = ended(2, unique_key="k")
    with transaction.atomic():
        assert 1 == again(second).count
        future = elsewhere(lambda: again(first))
    assert Requeued(0, {first: "unique key taken"}) == future.result(5)
    assert [str(second)] == live()


def test_a_requeue_leaves_the_callers_transaction_as_it_was():
    first, second = ended(2, unique_key="k")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '7s'")
        again(first)
        again(second)
        cursor.execute("SHOW lock_timeout")
        assert "7s" == cursor.fetchone()[0]
    assert [str(first)] == live()


def test_a_loser_leaves_the_transaction_of_a_requeue_usable(elsewhere, monkeypatch):
    monkeypatch.setattr(requeue_module, "PATIENCE", "20s")
    first, second = *ended(1, unique_key="k"), *ended(1, unique_key="l")

    def lose() -> list[Any]:
        with transaction.atomic(), connection.cursor() as cursor:
            got = again(first, second)
            cursor.execute("SHOW lock_timeout")
            return [got, cursor.fetchone()[0], add.enqueue(1).created]

    with transaction.atomic():
        once.enqueue("k")
        future = elsewhere(lose)
    assert [Requeued(1, {first: "unique key taken"}), "20s", True] == future.result(5)


def test_jobs_without_a_key_pay_nothing_for_those_with_one():
    dead = ended(3)
    with CaptureQueriesContext(connection) as queries:
        assert 3 == again(*dead).count
    assert 0 == sum("lock_timeout" in query["sql"] for query in queries)


# What changes a live job changes nothing of its key.


def test_run_now_and_promote_keep_the_key():
    first, second = [job.pk for job in Job.objects.bulk_create([_scheduled("k"), _scheduled("l")])]
    assert RunNow(1, {}) == run_now([first], actor=ANA, database="default")
    Job.objects.filter(pk=second).update(run_after="2026-01-01T00:00Z")
    with desks("w") as [desk]:
        assert 1 == promote(worker=desk.id, database=desk.database)
    assert [(first, "ready", "k"), (second, "ready", "l")] == list(
        Job.objects.order_by("id").values_list("id", "state", "unique_key")
    )
    assert (str(first), str(second)) == (once.enqueue("k").id, once.enqueue("l").id)


def _scheduled(key: str) -> Job:
    return Job(
        task="tests.tasks.ok", state="scheduled", run_after="2999-01-01T00:00Z", unique_key=key
    )


# Many at once.

WATCH = """
    CREATE FUNCTION two_live() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT count(*) FROM django_jobs_job WHERE backend = NEW.backend
            AND unique_key = NEW.unique_key AND finished_at IS NULL) > 1
        THEN RAISE EXCEPTION 'two live jobs of %', NEW.unique_key; END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER two_live AFTER INSERT OR UPDATE ON django_jobs_job
        FOR EACH ROW EXECUTE FUNCTION two_live();
"""
VALID = """
    SELECT indisvalid AND indisunique AND indisready FROM pg_index
    WHERE indexrelid = 'django_jobs_job_unique_key'::regclass
"""


@pytest.fixture
def watched(transactional_db: None) -> Iterator[None]:
    """Have a trigger refuse a second live job of a key."""
    with connection.cursor() as cursor:
        cursor.execute(WATCH)
        yield
        cursor.execute("DROP TRIGGER two_live ON django_jobs_job; DROP FUNCTION two_live()")


@pytest.mark.subprocess
@pytest.mark.timeout(600)
def test_processes_that_race_for_a_key_leave_one_live_job(
    watched: None, jobworker: JobWorkers
) -> None:
    racers = [
        jobworker.command(
            "shell", "-c", f"from tests.operations.racers import race; race({seed}, count={RACES})"
        )
        for seed in range(RACERS)
    ]
    assert [0] * RACERS == [racer.wait(500) for racer in racers], racers[0].log()
    logs = "\n".join(racer.log() for racer in racers)
    assert not re.search("Integrity|Traceback|two live", logs), logs
    came = Counter[str]()
    for word, number in re.findall(r"'(\w+)': (\d+)", logs):
        came[word] += int(number)
    assert RACERS * RACES == came.total()
    print(f"\n{RACERS} processes: {dict(came)}")  # noqa: T201 - figures of the long form
    assert min(came["made"], came["undone"]) > RACERS, "too few for a race"
    assert 1 == len(live(KEY))
    with connection.cursor() as cursor:
        cursor.execute(VALID)
        assert [(True,)] == cursor.fetchall()
