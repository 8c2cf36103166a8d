"""Enqueue is part of the caller's transaction, and costs what it says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_jobs.compat import TaskResultDoesNotExist, task_enqueued
from django_jobs.exceptions import InvalidPayload
from django_jobs.models import Event, Job
from django_jobs.models import Worker as WorkerRow
from django_jobs.testing import run_jobs, running_worker
from tests import tasks
from tests.tasks import ok

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sleeper() -> WorkerRow:
    """A worker's row that says: I sleep, ring me."""
    return WorkerRow.objects.create(
        id=uuid4(),
        backend="default",
        name="host",
        pid=1,
        version="0",
        queues=["default", "a"],
        capacity=1,
        idle=True,
    )


def count_of_statements(act) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        act()
    return [query["sql"] for query in captured.captured_queries]


def test_enqueue_is_one_statement_in_autocommit_bell_included(sleeper, bells) -> None:
    statements = count_of_statements(lambda: ok.enqueue(1))
    assert len(statements) == 1
    assert bells() == ["default default"]


def test_in_a_transaction_it_is_one_each_and_one_after_the_commit(sleeper, bells) -> None:
    def three() -> None:
        with transaction.atomic():
            ok.enqueue(1)
            ok.enqueue(2)
            with transaction.atomic():
                ok.using(queue_name="a").enqueue(3)
            assert bells() == []

    statements = [sql for sql in count_of_statements(three) if "SAVEPOINT" not in sql]
    assert [sql.split()[0] for sql in statements] == [
        "BEGIN",
        "WITH",
        "WITH",
        "WITH",
        "COMMIT",
        "SELECT",
    ]
    assert sorted(bells()) == ["a default", "default default"]


def test_bulk_enqueue_is_a_statement_a_thousand_and_one_bell_a_queue(sleeper, bells) -> None:
    statements = count_of_statements(lambda: ok.enqueue_many(ok.s(i) for i in range(2500)))
    assert sum("INSERT INTO django_jobs_job" in sql for sql in statements) == 3
    assert bells() == ["default default"]
    assert Job.objects.count() == 2500


@pytest.mark.parametrize("change", [{"idle": False}, {"queues": ["b"]}, {"backend": "other"}])
def test_no_bell_rings_when_nobody_sleeps_there(sleeper, bells, change) -> None:
    WorkerRow.objects.filter(pk=sleeper.pk).update(**change)
    ok.enqueue(1)
    assert bells() == []


def test_no_bell_rings_for_a_sleeper_that_is_gone(sleeper, bells) -> None:
    WorkerRow.objects.filter(pk=sleeper.pk).update(seen_at="2000-01-01T00:00:00Z")
    ok.enqueue(1)
    assert bells() == []


def test_a_job_in_the_far_future_rings_no_bell_a_near_one_does(sleeper, bells) -> None:
    ok.using(run_after=timedelta(hours=1)).enqueue(1)
    assert bells() == []
    ok.using(run_after=timedelta(seconds=1)).enqueue(1)
    assert bells() == ["default default"]


def test_a_rolled_back_savepoint_leaves_one_bell_for_the_rest(sleeper, bells) -> None:
    def mixed() -> None:
        with transaction.atomic():
            ok.enqueue("kept")
            with suppress(RuntimeError), transaction.atomic():
                ok.using(queue_name="a").enqueue("gone")
                raise RuntimeError
            ok.enqueue("kept too")

    statements = count_of_statements(mixed)
    assert sum("pg_notify" in sql and "INSERT" not in sql for sql in statements) == 1
    assert "default default" in bells()


def test_what_a_rolled_back_transaction_enqueued_never_rings(sleeper, bells) -> None:
    with suppress(RuntimeError), transaction.atomic():
        ok.using(queue_name="a").enqueue("gone")
        raise RuntimeError
    with transaction.atomic():
        ok.enqueue("kept")
    assert bells() == ["default default"]


def test_a_rollback_takes_the_job_with_it(sleeper, bells) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        result = ok.enqueue(1)
        raise RuntimeError
    assert Job.objects.count() == 0
    assert bells() == []
    with pytest.raises(TaskResultDoesNotExist):
        ok.get_result(result.id)


def test_a_savepoint_takes_only_its_own_jobs_with_it() -> None:
    with transaction.atomic():
        kept = ok.enqueue("kept")
        with pytest.raises(RuntimeError), transaction.atomic():
            ok.enqueue("gone")
            raise RuntimeError
    assert [job.pk for job in Job.objects.all()] == [int(kept.id)]


def test_the_id_is_usable_inside_the_transaction_and_after_it() -> None:
    with transaction.atomic():
        result = ok.enqueue(1)
        assert ok.get_result(result.id).status == "READY"
    assert ok.get_result(result.id).args == [1]


def test_a_refused_argument_leaves_the_transaction_usable_and_nothing_behind() -> None:
    with transaction.atomic():
        Group.objects.create(name="first")
        with pytest.raises(InvalidPayload, match=r"kwargs\.value: set is not JSON"):
            ok.enqueue(value={1, 2})
        Group.objects.create(name="second")
    assert Group.objects.count() == 2
    assert Job.objects.count() == 0


def test_a_bulk_with_one_bad_call_inserts_none() -> None:
    with pytest.raises(InvalidPayload):
        ok.enqueue_many(ok.s(value) for value in (1, 2, object()))
    assert Job.objects.count() == 0


def test_a_worker_sees_a_job_only_after_the_commit() -> None:
    with running_worker(max_in_flight=2, poll_ceiling_seconds=0.1):
        with transaction.atomic():
            group = Group.objects.create(name="new")
            result = tasks.find_group.enqueue(group.pk)
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_sleep(0.5)")  # several passes of the worker
            assert Job.objects.get(pk=result.id).state == "ready"
        wait_until_final(result.id)
    result.refresh()
    assert (result.attempts, result.return_value) == (1, "new")


def wait_until_final(pk: str) -> None:
    from tests.test_testing import wait_for

    wait_for(lambda: Job.objects.get(pk=pk).finished_at is not None)


def test_enqueue_on_commit_checks_at_once_and_inserts_after_the_commit() -> None:
    with transaction.atomic():
        ok.enqueue_on_commit(1)
        with pytest.raises(InvalidPayload):
            ok.enqueue_on_commit(object())
        assert Job.objects.count() == 0
    assert Job.objects.count() == 1


def test_enqueue_on_commit_of_a_rolled_back_transaction_is_nothing() -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        ok.enqueue_on_commit(1)
        raise RuntimeError
    assert Job.objects.count() == 0


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_enqueue_on_commit_waits_for_a_transaction_of_another_database() -> None:
    with pytest.raises(RuntimeError), transaction.atomic(using="other"):
        ok.enqueue_on_commit("ghost")
        raise RuntimeError
    assert Job.objects.count() == 0
    with transaction.atomic(using="other"):
        ok.enqueue_on_commit("kept")
        assert Job.objects.count() == 0
    assert [job.args for job in Job.objects.all()] == [["kept"]]


def test_a_commit_that_fails_leaves_no_job_no_event_and_no_bell(sleeper, bells) -> None:
    """A deferred constraint makes the commit itself fail."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE deferred (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    try:
        with pytest.raises(Exception, match="duplicate key"), transaction.atomic():
            ok.enqueue(1)
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO deferred VALUES (1), (1)")
        assert (Job.objects.count(), Event.objects.count(), bells()) == (0, 0, [])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE deferred")


def test_a_bell_that_fails_never_breaks_the_callers_other_callbacks(sleeper, monkeypatch) -> None:
    from django_jobs.sql import SiteDatabase

    whole = SiteDatabase.fetch

    def failing(self, name, params):
        if name == "ring":
            raise OperationalError("the line is dead")
        return whole(self, name, params)

    monkeypatch.setattr(SiteDatabase, "fetch", failing)
    called = []
    with transaction.atomic():
        ok.enqueue(1)
        transaction.on_commit(lambda: called.append(1))
    assert called == [1]
    assert Job.objects.count() == 1


def enqueue_elsewhere() -> None:
    ok.enqueue(2)
    connection.close()


def test_manual_transactions_ring_at_their_commit(sleeper, bells) -> None:
    transaction.set_autocommit(False)
    try:
        ok.enqueue(1)
        assert bells() == []
        with ThreadPoolExecutor(1) as threads:  # others do not wait for its commit
            threads.submit(enqueue_elsewhere).result(5)
        assert bells() == ["default default"]
        transaction.commit()
        assert bells() == ["default default"]
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def test_a_receiver_that_raises_does_not_stop_the_enqueue() -> None:
    def receiver(**_: object) -> None:
        raise RuntimeError("not mine")

    task_enqueued.connect(receiver)
    try:
        result = ok.enqueue(1)
    finally:
        task_enqueued.disconnect(receiver)
    assert Job.objects.get().pk == int(result.id)


def test_delays_are_measured_by_the_databases_clock() -> None:
    result = ok.using(run_after=timedelta(seconds=60)).enqueue(1)
    job = Job.objects.get(pk=result.id)
    assert job.run_after is not None
    assert (job.run_after - job.enqueued_at) == timedelta(seconds=60)
    assert job.state == "scheduled"


def test_every_enqueued_job_is_run_when_the_transaction_commits() -> None:
    with transaction.atomic():
        for value in range(5):
            ok.enqueue(value)
    assert len(run_jobs().succeeded) == 5
