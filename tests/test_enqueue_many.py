"""Enqueues that wait for a commit, come by the thousand, or go to another backend."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_jobs import constant, task
from django_jobs.backend import JobsBackend
from django_jobs.compat import InvalidTask, task_backends, task_enqueued
from django_jobs.exceptions import InvalidPayload
from django_jobs.models import Job
from tests.aliases import database_time, only_job, put_backends
from tests.ids import shown
from tests.sample_tasks import add, echo, later, send, undecorated

in_transaction = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)


@pytest.fixture
def backends(settings):
    """Set TASKS: ours under two aliases, and Django's two."""
    put_backends(settings)


@pytest.fixture
def sent() -> Iterator[list[tuple[str, Any]]]:
    """Note the id and sender of each task_enqueued."""
    noted: list[tuple[str, Any]] = []

    def note(*, sender: Any, task_result: Any, **_: Any) -> None:
        noted.append((task_result.id, sender))

    task_enqueued.connect(note)
    yield noted
    task_enqueued.disconnect(note)


# enqueue_on_commit


@committing
def test_enqueue_on_commit_waits_for_the_commit():
    with transaction.atomic():
        add.enqueue_on_commit(1)
        assert 0 == Job.objects.count()
    assert [1] == only_job().args


@committing
def test_enqueue_on_commit_goes_with_a_rollback():
    with transaction.atomic():
        add.enqueue_on_commit(1)
        transaction.set_rollback(True)
    with transaction.atomic():
        with transaction.atomic():
            add.enqueue_on_commit(2)
            transaction.set_rollback(True)
        add.enqueue_on_commit(3)
    assert [3] == only_job().args


@committing
def test_enqueue_on_commit_is_immediate_without_a_transaction():
    add.enqueue_on_commit(1)
    assert [1] == only_job().args


@committing
def test_enqueue_on_commit_checks_and_takes_down_its_arguments_at_once():
    items = [1]
    with transaction.atomic():
        with pytest.raises(InvalidPayload):
            echo.enqueue_on_commit(bad=object())
        echo.enqueue_on_commit(items=items)
        items.append(2)
    assert {"items": [1]} == only_job().kwargs


@committing
def test_enqueue_on_commit_counts_a_delay_from_the_commit():
    with transaction.atomic():
        add.using(run_after=timedelta(hours=1)).enqueue_on_commit(1)
        committed_after = database_time()
    assert committed_after + timedelta(hours=1) <= only_job().run_after


@committing
def test_enqueue_on_commit_sends_the_signal_with_the_job(sent):
    with transaction.atomic():
        add.enqueue_on_commit(1)
        assert [] == sent
    assert [(str(only_job().pk), JobsBackend)] == sent


# enqueue_many


@in_transaction
def test_enqueue_many_returns_the_ids_in_order():
    ids = add.enqueue_many(add.s(number) for number in range(2345))
    assert (
        [[number] for number in range(2345)]
        == [Job.objects.in_bulk(map(int, ids))[int(text)].args for text in ids]
        if len(ids) < 10
        else [job.args for job in Job.objects.order_by("id")]
    )
    assert [str(job.pk) for job in Job.objects.order_by("id")] == ids


@in_transaction
def test_enqueue_many_takes_calls_of_several_tasks_and_options():
    ids = add.enqueue_many(
        [
            add.s(1, b=2),
            send.s(1, customer=2),
            send.using(priority=9, run_after=timedelta(hours=1)).s(3, customer=4),
            task(undecorated, retry_on=(), backoff=constant(7.5)).s(),
        ],
    )
    jobs = [Job.objects.get(pk=text) for text in ids]
    assert [("ready", 0), ("ready", 7), ("scheduled", 9), ("ready", 0)] == [
        (job.state, job.priority) for job in jobs
    ]
    assert [None, ["builtins.OSError", "builtins.LookupError"], []] == [
        job.retry_on for job in (jobs[0], jobs[1], jobs[3])
    ]
    assert [2.0, 3.0, 3.0, 7.5] == [job.backoff_base for job in jobs]


@in_transaction
def test_enqueue_many_takes_times_of_either_kind_without_time_zones(settings):
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    times = [datetime(2999, 1, 1, 9), datetime(2999, 1, 1, 0, tzinfo=UTC)]  # noqa: DTZ001
    add.enqueue_many([add.using(run_after=when).s(1) for when in times])
    assert 1 == Job.objects.values("run_after").distinct().count()


@in_transaction
def test_enqueue_many_checks_all_before_the_first_insert():
    def calls() -> Iterator[Any]:
        yield from (add.s(number) for number in range(1500))
        yield add.s(object())

    with (
        CaptureQueriesContext(connection) as queries,
        pytest.raises(InvalidPayload, match=r"^Item 1500: args\[0\]: object is not JSON"),
    ):
        add.enqueue_many(calls())
    assert 0 == len(queries)


@in_transaction
@pytest.mark.parametrize("wrong", [1, None, add, (add, (1,), {})], ids=shown)
def test_enqueue_many_takes_calls_only(wrong):
    with pytest.raises(TypeError, match=r"Item 1 is no call; make it with task\.s"):
        add.enqueue_many([add.s(1), wrong])


@in_transaction
def test_enqueue_many_refuses_calls_of_another_backend(backends):
    with pytest.raises(InvalidTask, match="Item 1 is for the backend 'second', the task for"):
        add.enqueue_many([add.s(1), add.using(backend="second").s(2)])
    assert 0 == Job.objects.count()


@in_transaction
def test_enqueue_many_of_nothing_does_nothing():
    assert [] == add.enqueue_many([])


@in_transaction
def test_enqueue_many_sends_a_signal_for_each_job(sent):
    ids = add.enqueue_many([add.s(1), add.s(2)])
    assert [(text, JobsBackend) for text in ids] == sent


# Other backends, as in the tests of a site


def test_on_the_dummy_backend_everything_works(backends):
    made: Any = send.using(backend="dummy", run_after=timedelta(hours=1))
    before = datetime.now(UTC)
    result = made.enqueue(1, customer=2)
    assert 2 == len(made.enqueue_many([made.s(1, customer=2), made.s(2, customer=2)]))
    assert 3600 <= (result.task.run_after - before).total_seconds() <= 3660
    assert 3 == len(task_backends["dummy"].results)  # type: ignore[attr-defined]
    assert (5, "mail") == (result.task.max_attempts, result.task.queue_name)


def test_on_the_immediate_backend_everything_works(backends):
    made = add.using(backend="immediate")
    assert 3 == made.enqueue(1, b=2).return_value
    assert 3 == async_to_sync(made.aenqueue)(1, b=2).return_value
    assert "x" == later.using(backend="immediate").enqueue("x").return_value
    with pytest.raises(InvalidTask, match="does not support run_after"):
        made.using(run_after=timedelta(hours=1))


@in_transaction
def test_on_another_backend_enqueue_on_commit_checks_now(
    backends, django_capture_on_commit_callbacks
):
    made = add.using(backend="dummy")
    with django_capture_on_commit_callbacks(execute=True):
        made.enqueue_on_commit(1)
        assert [] == task_backends["dummy"].results  # type: ignore[attr-defined]
    assert 1 == len(task_backends["dummy"].results)  # type: ignore[attr-defined]
    object.__setattr__(made, "priority", 1000)
    with pytest.raises(InvalidTask):
        made.enqueue_on_commit(1)
