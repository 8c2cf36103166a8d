"""What an atomic task writes and its success are committed together, or not at all."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, IntegrityError, connection, connections, transaction
from django.test import TestCase
from django.utils import timezone

from django_jobs import CancelJob, Limit, RetryJob, SnoozeJob, constant, task
from django_jobs.compat import InvalidTask, task_backends, task_finished
from django_jobs.exceptions import JobCancelled
from django_jobs.models import Event as EventRow
from django_jobs.models import Job, Lease
from django_jobs.models import Limit as LimitRow
from django_jobs.operations.cancel import cancel
from django_jobs.operations.follow import wake
from django_jobs.operations.settle_own import begin_own, settle_own
from django_jobs.sql import SiteDatabase
from django_jobs.testing import run_jobs, running_worker
from django_jobs.worker import atomic, sweeper
from django_jobs.worker.after import After
from tests.aliases import put_backends
from tests.ledger.models import Mark
from tests.operations.desk import desks, kinds, succeeded
from tests.operations.ended import ANA
from tests.processes import wait_for
from tests.tasks import ok
from tests.worker.embedded import rescued_later, row, wait_for_ends, wait_for_state

pytestmark = pytest.mark.django_db(transaction=True)

begun = Event()
go = Event()
called: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    begun.clear()
    go.clear()
    called.clear()
    yield
    go.set()


def write(key: str) -> None:
    Mark.objects.create(key=key)


def hold() -> None:
    begun.set()
    go.wait(10)


def written(key: str = "a") -> int:
    return Mark.objects.filter(key=key).count()


def said(result: Any) -> str:
    return str(row(result).error)


def ended(result: Any) -> tuple[Any, ...]:
    """How a job has ended, and how many rows it has left."""
    wait_for_ends(result)
    job = row(result)
    return job.state, job.attempt, written()


@task(max_attempts=2, backoff=constant(0, jitter=0), atomic=True)
def once(key: str = "a") -> str:
    write(key)
    return key


@task(max_attempts=2, backoff=constant(0.01, jitter=0), atomic=True, takes_context=True)
def until_told(context: Any, key: str = "a") -> int:
    write(key)
    begun.set()
    if context.attempt == 1:
        go.wait(10)
    return int(context.attempt)


@task(max_attempts=1, atomic=True)
def in_steps() -> None:
    write("a")
    begun.set()
    while True:
        time.sleep(0.01)


RAISED: dict[str, Callable[[], Any]] = {
    "error": lambda: 1 / 0,
    "exit": lambda: sys.exit(1),
    "retry": lambda: _throw(RetryJob(after=0)),
    "cancel": lambda: _throw(CancelJob("enough")),
    "snooze": lambda: _throw(SnoozeJob(timedelta(hours=1))),
}


def _throw(error: BaseException) -> None:
    raise error


@task(max_attempts=2, backoff=constant(0, jitter=0), atomic=True)
def raising(kind: str) -> None:
    write("a")
    RAISED[kind]()


# what is kept, and what is not


def test_what_it_wrote_and_its_success_are_one_transaction():
    with running_worker():
        result = once.enqueue()
        assert ("succeeded", 1, 1) == ended(result)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT xmin::text FROM ledger_mark), (SELECT xmin::text FROM django_jobs_job)"
        )
        mine, theirs = cursor.fetchone()
    assert mine == theirs
    result.refresh()
    assert "a" == result.return_value
    assert not Lease.objects.exists()
    assert [] == kinds(int(result.id))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("error", ("dead", 2, 0)),
        ("exit", ("dead", 1, 0)),
        ("retry", ("dead", 2, 0)),
        ("cancel", ("cancelled", 1, 0)),
    ],
)
def test_what_an_attempt_wrote_that_raised_is_rolled_back(kind: str, expected: Any):
    with running_worker():
        assert expected == ended(raising.enqueue(kind))


def test_what_a_snoozing_attempt_wrote_is_rolled_back():
    with running_worker():
        result = raising.enqueue("snooze")
        wait_for_state(result, "scheduled")
    assert (0, 0) == (row(result).attempt, written())


def test_a_result_that_json_cannot_say_is_rolled_back():
    with running_worker():
        result = unsayable.enqueue()
        assert ("dead", 1, 0) == ended(result)
    assert "bad_result" == EventRow.objects.get(job_id=int(result.id)).data["reason"]


@task(max_attempts=3, atomic=True)
def unsayable() -> object:
    write("a")
    return {"when": object()}


def test_a_failure_keeps_nothing_and_the_retry_is_counted_once():
    with running_worker():
        assert ("succeeded", 2, 1) == ended(second_time.enqueue())


@task(max_attempts=3, backoff=constant(0, jitter=0), atomic=True, takes_context=True)
def second_time(context: Any) -> None:
    write("a")
    if context.attempt == 1:
        raise ValueError("once")


def test_a_deferred_constraint_fails_the_attempt_and_keeps_nothing():
    with running_worker():
        result = deferred.enqueue()
        assert ("dead", 2, 0) == ended(result)
    assert "IntegrityError" in said(result)
    assert ["failed", "dead"] == kinds(int(result.id))


@task(max_attempts=2, backoff=constant(0, jitter=0), atomic=True)
def deferred() -> None:
    write("a")
    Group.permissions.through.objects.create(group_id=-1, permission_id=-1)


def test_inner_transactions_may_fail_alone():
    with running_worker():
        result = with_savepoints.enqueue()
        assert ("succeeded", 1, 1) == ended(result)
    assert (0, ["kept"]) == (written("b"), called)


@task(atomic=True)
def with_savepoints() -> None:
    write("a")
    with suppress(IntegrityError), transaction.atomic():
        write("b")
        transaction.on_commit(lambda: called.append("lost"))
        Group.objects.create(name="x")
        Group.objects.create(name="x")
    transaction.on_commit(lambda: called.append("kept"))


# bodies that do what they should not


def _swallow() -> None:
    with suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


def _swallow_inside() -> None:
    with suppress(IntegrityError), transaction.atomic(savepoint=False):
        Group.objects.create(name="x")
        Group.objects.create(name="x")


def _execute(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text)


def _roll_back_and_go_on() -> None:
    _execute("ROLLBACK")
    write("b")


def _of_connection(method: str) -> Callable[[], Any]:
    return lambda: getattr(connection, method)()  # noqa: PLW0108 - of the thread that calls it


def _want_rollback() -> None:
    transaction.set_rollback(True)


def _close_below() -> None:
    connection.connection.close()


def _flag() -> None:
    connection.in_atomic_block = False


BREAKING: dict[str, tuple[Callable[[], Any], str]] = {
    "swallowed": (_swallow, "caught an error"),
    "swallowed inside": (_swallow_inside, "caught an error"),
    "rollback wanted": (_want_rollback, "caught an error"),
    "closed": (_of_connection("close"), "closed or replaced"),
    "closed below": (_close_below, "closed or replaced"),
    "replaced": (lambda: connections.__delitem__("default"), "closed or replaced"),
    "autocommit": (lambda: transaction.set_autocommit(True), "atomic"),
    "rollback": (_of_connection("rollback"), "atomic"),
    "commit": (_of_connection("commit"), "atomic"),
    "raw rollback": (lambda: _execute("ROLLBACK"), "ended the transaction"),
    "raw rollback and on": (_roll_back_and_go_on, "ended the transaction"),
    "flag": (_flag, "ended the transaction"),
    "left open": (lambda: transaction.atomic().__enter__(), "left an inner"),
    "durable": (lambda: transaction.atomic(durable=True).__enter__(), "durable"),
}


@task(max_attempts=1, atomic=True)
def breaking(kind: str) -> None:
    write("a")
    BREAKING[kind][0]()


@pytest.mark.parametrize("kind", BREAKING)
def test_a_body_that_breaks_its_transaction_has_failed_and_left_nothing(kind: str):
    with running_worker(max_in_flight=1):
        result = breaking.enqueue(kind)
        assert ("dead", 1, 0) == ended(result)
        assert BREAKING[kind][1] in said(result)
        assert 0 == written("b")
        assert ["succeeded"] == wait_for_ends(once.enqueue("next"))  # in the same thread
    assert 1 == written("next")


@pytest.mark.parametrize("kind", ["raw commit", "raw commit and on"])
def test_a_body_that_commits_by_itself_is_never_a_success(kind: str):
    with running_worker():
        result = committing.enqueue(kind)
        wait_for_ends(result)
    assert ("dead", 0) == (row(result).state, written("b"))
    assert "ended the transaction" in said(result)


@task(max_attempts=1, atomic=True)
def committing(kind: str) -> None:
    write("a")
    _execute("COMMIT")
    if kind == "raw commit and on":
        write("b")


# the fence


@pytest.mark.slow
def test_a_run_that_lost_its_lease_writes_nothing(caplog: Any):
    with running_worker() as worker:
        result = until_told.enqueue()
        begun.wait(10)
        rescued_later(result)  # or the worker itself did
        wait_for(lambda: row(result).attempt == 2 or row(result).state != "running")
        go.set()
        assert ("succeeded", 2, 1) == ended(result)
        wait_for(lambda: worker.loop.tally.lost == 1)
    result.refresh()
    assert 2 == result.return_value
    assert 1 == worker.loop.tally.succeeded
    assert f"lost lease: the outcome of job {result.id} is void" in caplog.text


def test_the_settle_waits_for_who_holds_the_lease_for_a_moment():
    with running_worker(), desks("another") as [desk]:
        result = until_told.enqueue()
        begun.wait(10)
        with desk.open().transaction():
            desk.open().execute("SELECT FROM django_jobs_lease FOR UPDATE")
            go.set()
            wait_for(is_waiting)
            desk.open().execute("UPDATE django_jobs_lease SET expires_at = now() + '1 day'")
        assert ("succeeded", 1, 1) == ended(result)


def is_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND query LIKE '%%transaction_timestamp%%'"
            " AND pid <> pg_backend_pid()"
        )
        return bool(cursor.fetchone()[0])


def test_the_renewer_does_not_take_a_commit_for_a_lost_lease(
    caplog: Any, monkeypatch: pytest.MonkeyPatch
):
    settle = settle_own

    def slow(*args: Any, **given: Any) -> Any:
        own = settle(*args, **given)
        transaction.on_commit(hold)
        return own

    monkeypatch.setattr(atomic, "settle_own", slow)
    with running_worker() as worker:
        result = once.enqueue()
        begun.wait(10)
        worker.renewer.turn()
        go.set()
        wait_for(lambda: worker.loop.tally.succeeded == 1)
    assert ("succeeded", 1, 1) == ended(result)
    assert "lost its lease" not in caplog.text


def test_a_success_wins_over_a_cancel_that_comes_too_late():
    with running_worker():
        result = deaf.enqueue()
        begun.wait(10)
        cancel([int(result.id)], actor=ANA, reason="late", database="default")
        go.set()
        assert ("succeeded", 1, 1) == ended(result)
    assert row(result).cancel_asked_at is None


@task(max_attempts=1, atomic=True, takes_context=True)
def deaf(context: Any) -> None:
    write("a")
    begun.set()
    while not context.cancelled:
        with suppress(JobCancelled):
            time.sleep(0.01)


def test_a_cancel_that_arrives_in_the_body_rolls_back():
    with running_worker():
        result = in_steps.enqueue()
        begun.wait(10)
        cancel([int(result.id)], actor=ANA, reason="no", database="default")
        assert ("cancelled", 1, 0) == ended(result)


def test_a_timeout_rolls_back():
    with running_worker() as worker:
        result = in_steps.enqueue()
        begun.wait(10)
        [run] = worker.capacity.held.copy().values()
        run.timeout = 1.0
        run.time_out()
        assert ("dead", 1, 0) == ended(result)
    assert "TimeoutError" in said(result)


def test_a_run_that_a_drain_cut_off_commits_nothing_and_another_worker_has_it_at_once():
    with running_worker(drain_seconds=0) as first:
        result = until_told.enqueue()
        begun.wait(10)
        first.stop()
        wait_for_state(result, "ready")
        with running_worker():
            wait_for(lambda: row(result).attempt == 1 and row(result).state == "running")
            go.set()
            assert ("succeeded", 1, 1) == ended(result)
    assert 1 == first.loop.tally.handed_back
    assert 0 == first.loop.tally.succeeded


# the commit and its answer


def lose_the_answer(monkeypatch: pytest.MonkeyPatch, *, commits: bool) -> None:
    """Let the first commit of an atomic run go without an answer."""
    attempt = atomic._Transaction.attempt
    lost: list[int] = []

    def losing(self: Any, body: Any) -> Any:
        mine: Any = connections["default"]
        commit = mine._commit

        def silent() -> None:
            if lost:
                commit()
                return
            lost.append(1)
            if commits:
                commit()
            mine.connection.close()
            raise DatabaseError("the line is broken")

        monkeypatch.setattr(mine, "_commit", silent)
        return attempt(self, body)

    monkeypatch.setattr(atomic._Transaction, "attempt", losing)


@pytest.fixture
def told() -> Iterator[list[Any]]:
    heard: list[Any] = []

    def hear(task_result: Any, **_: object) -> None:
        heard.append((task_result.id, task_result.status.name))

    task_finished.connect(hear)
    yield heard
    task_finished.disconnect(hear)


def test_a_commit_whose_answer_was_lost_is_a_success(
    monkeypatch: pytest.MonkeyPatch, told: list[Any], caplog: Any
):
    lose_the_answer(monkeypatch, commits=True)
    caplog.set_level(logging.INFO, logger="django_jobs")
    with running_worker() as worker:
        result = once.enqueue()
        child = ok.using(depends_on=[result]).enqueue(1)
        assert ("succeeded", 1, 1) == ended(result)
        assert ["succeeded"] == wait_for_ends(child)
        wait_for(lambda: len(told) == 2)
    assert (result.id, "SUCCESSFUL") == told[0]
    assert (2, 0, 0) == (
        worker.loop.tally.succeeded,
        worker.loop.tally.failed,
        worker.loop.tally.lost,
    )
    assert f"job {result.id} succeeded" in caplog.text
    assert "failed on attempt" not in caplog.text
    result.refresh()
    assert "a" == result.return_value


def test_a_commit_that_never_came_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch):
    lose_the_answer(monkeypatch, commits=False)
    with running_worker() as worker:
        assert ("succeeded", 2, 1) == ended(once.enqueue())
    assert (1, 1) == (worker.loop.tally.succeeded, worker.loop.tally.failed)


def test_a_drain_that_hands_back_a_run_whose_commit_is_done_counts_a_success(
    told: list[Any], monkeypatch: pytest.MonkeyPatch
):
    with running_worker(drain_seconds=0) as worker:
        result = with_slow_callback.enqueue()
        begun.wait(10)
        worker.stop()
        wait_for(lambda: worker.loop.tally.succeeded == 1)
        wait_for(lambda: told)
        go.set()
    assert [(result.id, "SUCCESSFUL")] == told
    assert (1, 0) == (worker.loop.tally.succeeded, worker.loop.tally.handed_back)


@task(atomic=True)
def with_slow_callback() -> None:
    write("a")
    transaction.on_commit(hold)


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(1)], ids=["error", "exit"])
def test_a_callback_that_raises_stops_no_other_and_is_no_failure(error: Any, caplog: Any):
    FAULTS[:] = [error]
    with running_worker() as worker:
        result = with_callbacks.enqueue()
        assert ("succeeded", 1, 1) == ended(result)
        wait_for(lambda: worker.loop.tally.succeeded == 1)
    assert ["first", "last"] == called
    assert f"job {result.id} has committed; its callback" in caplog.text


FAULTS: list[BaseException] = []


@task(atomic=True)
def with_callbacks() -> None:
    write("a")
    transaction.on_commit(lambda: called.append("first"))
    transaction.on_commit(lambda: _throw(FAULTS[0]))
    transaction.on_commit(lambda: called.append("last"))


def test_a_callback_sees_the_job_as_succeeded_and_its_rows():
    with running_worker():
        wait_for_ends(looking.enqueue())
    assert ["succeeded 1"] == called


@task(atomic=True, takes_context=True)
def looking(context: Any) -> None:
    write("a")
    pk = int(context.task_result.id)
    transaction.on_commit(lambda: called.append(f"{Job.objects.get(pk=pk).state} {written()}"))


def test_what_an_atomic_task_enqueues_is_enqueued_with_its_success():
    with running_worker():
        assert ("dead", 2, 0) == ended(enqueuing.enqueue(fail=True))
        assert 1 == Job.objects.count()
        wait_for_ends(enqueuing.enqueue(fail=False))
        wait_for(lambda: Job.objects.filter(state="succeeded").count() == 2)


@task(max_attempts=2, backoff=constant(0, jitter=0), atomic=True)
def enqueuing(*, fail: bool) -> None:
    ok.enqueue(1)
    if fail:
        raise ValueError("no")


# permits, and who waits


@task(atomic=True, limit=Limit("shared", size=1))
def alone(key: str = "a") -> None:
    write(key)


@pytest.fixture
def unswept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is repaired by the sweeper."""
    for name in ("_wake", "_free_strays"):
        monkeypatch.setattr(sweeper.Sweeper, name, lambda *_: None)


def in_use() -> int:
    return LimitRow.objects.get(key="shared").in_use


def test_its_permit_comes_back_and_who_was_blocked_is_woken(unswept: None):
    results = [alone.enqueue() for _ in range(20)]
    with running_worker():
        assert {"succeeded"} == set(wait_for_ends(*results))
        wait_for(lambda: in_use() == 0)
    assert 20 == written()


def test_a_permit_that_was_counted_meanwhile_is_not_given_back_twice(
    monkeypatch: pytest.MonkeyPatch,
):
    right = After._right_permits

    def counted_before(self: Any, answers: Any) -> None:
        LimitRow.objects.update(in_use=7)  # as if others had taken it since
        with desks("other") as [desk]:
            Lease.objects.bulk_create(
                Lease(
                    job_id=-1 - number,
                    worker=desk.id,
                    limit_key="shared",
                    expires_at=timezone.now() + timedelta(seconds=60),
                )
                for number in range(7)
            )
        connection.close()  # this is the loop's thread
        right(self, answers)

    monkeypatch.setattr(After, "_right_permits", counted_before)
    with running_worker():
        wait_for_ends(alone.enqueue())
        wait_for(lambda: Lease.objects.count() == 7)
        wait_for(lambda: in_use() == 7)


def test_the_sweeper_repairs_what_a_death_after_the_commit_has_left(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sweeper, "RECONCILE_EVERY", 0.1)
    first = alone.enqueue()
    waiting = ok.using(depends_on=[first]).enqueue(1)
    blocked = alone.enqueue()
    with desks("dead") as [desk]:
        [job] = desk.claim()
        database = desk.database
        settle_by_hand(job, desk)  # and then it is dead
        assert "blocked" == row(blocked).state
        assert (0, 1) == (wake(["shared"], worker=uuid4(), database=database), in_use())
    with running_worker():
        assert {"succeeded"} == set(wait_for_ends(first, waiting, blocked))
        wait_for(lambda: in_use() == 0)


def settle_by_hand(job: Any, desk: Any) -> None:
    database = SiteDatabase("default")
    with transaction.atomic():
        began = begin_own(database)
        assert settle_own(succeeded(job), began=began, worker=desk.id, database=database).done


# isolation


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_transaction_is_read_committed_whatever_the_role_says(level: str):
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        user = cursor.fetchone()[0]
        cursor.execute(f"ALTER ROLE {user} SET default_transaction_isolation = '{level}'")
    try:
        with running_worker(max_in_flight=4):
            assert ["succeeded"] == wait_for_ends(isolation.enqueue())
            results = [alone.enqueue() for _ in range(5)]
            assert {"succeeded"} == set(wait_for_ends(*results))
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER ROLE {user} RESET default_transaction_isolation")
    assert (["read committed"], {1}) == (called, {row(result).attempt for result in results})


@task(atomic=True)
def isolation() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        called.append(cursor.fetchone()[0])


def test_it_commits_where_the_site_has_no_autocommit(monkeypatch: pytest.MonkeyPatch):
    connection.ensure_connection()
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)
    with running_worker(max_in_flight=1):
        assert ["succeeded"] * 2 == wait_for_ends(once.enqueue(), once.enqueue())
    assert 2 == written()


# where it cannot be


def test_it_is_refused_where_the_jobs_are_in_another_database(settings: Any):
    settings.TASKS = {
        "default": {
            "BACKEND": "django_jobs.backend.JobsBackend",
            "OPTIONS": {"database": "other"},
        }
    }
    with pytest.raises(InvalidTask, match=r"'other'.*Set OPTIONS"):
        task_backends["default"].validate_task(once)
    with pytest.raises(InvalidTask, match=r"'other'.*Set OPTIONS"):
        once.enqueue()


def test_a_worker_that_meets_it_there_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(atomic, "misplaced", lambda _: "atomic=True needs another database")
    with running_worker():
        result = once.enqueue()
        assert ("dead", 2, 0) == ended(result)
    assert "atomic=True needs another database" in said(result)


@pytest.mark.parametrize("alias", ["dummy", "immediate"])
def test_djangos_own_backends_take_it(settings: Any, alias: str):
    put_backends(settings)
    once.using(backend=alias).enqueue("a")
    assert (1 if alias == "immediate" else 0) == written()


# in a test of the site's


class InsideATestCase(TestCase):
    """run_jobs() keeps what a worker would have committed, and nothing else."""

    def test_a_success_is_kept(self) -> None:
        once.enqueue()
        assert 1 == len(run_jobs().succeeded)
        assert 1 == written()

    def test_a_failure_is_rolled_back(self) -> None:
        for kind in ("error", "exit", "retry", "cancel", "snooze"):
            raising.enqueue(kind)
        ran = run_jobs()
        assert (4, 1, 0) == (len(ran.ended), len(ran.put_off), written())

    def test_a_bad_result_is_rolled_back(self) -> None:
        unsayable.enqueue()
        assert (1, 0) == (len(run_jobs().ended), written())

    def test_a_swallowed_error_is_a_failure(self) -> None:
        for kind in ("swallowed", "swallowed inside", "rollback wanted"):
            result = breaking.enqueue(kind)
            assert (1, 0) == (len(run_jobs().ended), written())
            assert "caught an error" in said(result)

    def test_callbacks_are_called_for_a_success_alone(self) -> None:
        with_savepoints.enqueue()
        assert 1 == len(run_jobs().succeeded)
        assert ["kept"] == called
        called.clear()
        then_raising.enqueue()
        assert (1, []) == (len(run_jobs().ended), called)


@task(max_attempts=1, atomic=True)
def then_raising() -> None:
    transaction.on_commit(lambda: called.append("never"))
    raise ValueError("no")


def test_run_jobs_outside_a_transaction_does_the_same():
    once.enqueue()
    raising.enqueue("error")
    ran = run_jobs()
    assert (1, 1, 1) == (len(ran.succeeded), len(ran.ended), written())
