"""What a task's enqueue writes, and when."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_jobs import constant, task
from django_jobs.backend import parse_id
from django_jobs.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
)
from django_jobs.exceptions import InvalidPayload
from django_jobs.models import Job
from django_jobs.states import JobState
from django_jobs.tasks import JobResult, JobTask
from tests.aliases import database_time, only_job, put_backends, put_options
from tests.sample_tasks import add, echo, plain, rule, send, undecorated

in_transaction = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)


@pytest.fixture
def backends(settings):
    """Set TASKS: ours under two aliases, and Django's two."""
    put_backends(settings)


@in_transaction
def test_the_row_holds_what_the_task_says():
    send.enqueue(42, customer=7)
    job = only_job()
    assert ("tests.sample_tasks.send", "default", "mail", 7, "ready") == (
        job.task,
        job.backend,
        job.queue,
        job.priority,
        job.state,
    )
    assert ([42], {"customer": 7}, {"team": "shop"}) == (job.args, job.kwargs, job.metadata)
    assert (5, "linear", 3.0, 60.0, 0.25) == (
        job.max_attempts,
        job.backoff,
        job.backoff_base,
        job.backoff_cap,
        job.backoff_jitter,
    )
    assert ["builtins.OSError", "builtins.LookupError"] == job.retry_on
    assert ["builtins.FileNotFoundError"] == job.give_up_on
    assert (False, False) == (job.keep_dead, job.idempotent)


@in_transaction
@pytest.mark.parametrize("made", [add, plain], ids=["ours", "plain"])
def test_the_row_holds_the_settings_where_the_task_says_nothing(settings, made):
    options = {"max_attempts": 9, "backoff": constant(5, jitter=0)}
    put_options(settings, options)
    made.enqueue(a=1)
    job = only_job()
    assert (9, "constant", 5.0, 0.0) == (
        job.max_attempts,
        job.backoff,
        job.backoff_base,
        job.backoff_jitter,
    )
    assert (None, None, True, True, None) == (
        job.retry_on,
        job.give_up_on,
        job.keep_dead,
        job.idempotent,
        job.metadata,
    )


@in_transaction
def test_a_function_as_backoff_leaves_the_numbers_of_the_settings_on_the_row():
    task(undecorated, backoff=rule).enqueue()
    assert ("exponential", 2.0) == (only_job().backoff, only_job().backoff_base)


@in_transaction
def test_a_task_that_never_retries_says_so_on_the_row():
    task(undecorated, retry_on=()).enqueue()
    assert [] == only_job().retry_on


@in_transaction
def test_the_task_class_of_somebody_else_is_enqueued_with_the_defaults(backends):
    foreign: Any = task_backends["dummy"].task_class(
        func=plain.func, priority=0, queue_name="default", backend="default", run_after=None
    )
    assert not isinstance(foreign, JobTask)
    result = foreign.enqueue(a=1)
    assert (3, True) == (only_job().max_attempts, only_job().keep_dead)
    assert foreign is result.task


@in_transaction
def test_a_result_has_the_finer_state_and_the_metadata():
    result = send.using(run_after=timedelta(hours=1)).enqueue(1, customer=2)
    assert isinstance(result, JobResult)
    assert (JobState.SCHEDULED, TaskResultStatus.READY, {"team": "shop"}) == (
        result.state,
        result.status,
        result.metadata,
    )
    assert {} == add.enqueue(1).metadata


@in_transaction
def test_refresh_takes_the_finer_state_and_the_metadata():
    result = add.enqueue(1)
    assert isinstance(result, JobResult)
    Job.objects.update(state="cancelled", finished_at=database_time(), metadata={"a": 1})
    result.refresh()
    assert (JobState.CANCELLED, TaskResultStatus.FAILED, {"a": 1}) == (
        result.state,
        result.status,
        result.metadata,
    )


@in_transaction
def test_a_keyword_argument_may_be_called_self():
    echo.enqueue(self=1, delay=2, kwargs=3)
    echo.enqueue_many([echo.s(self=1, calls=2)])
    assert [{"self": 1, "delay": 2, "kwargs": 3}, {"self": 1, "calls": 2}] == [
        job.kwargs for job in Job.objects.order_by("id")
    ]


@in_transaction
def test_a_delay_counts_by_the_clock_of_the_database():
    before = database_time()
    add.using(run_after=timedelta(minutes=5)).enqueue(1)
    job = only_job()
    assert "scheduled" == job.state
    assert before <= job.run_after - timedelta(minutes=5) <= database_time()


@in_transaction
@pytest.mark.parametrize("wait", [timedelta(0), timedelta(seconds=-5), timedelta.min], ids=repr)
def test_a_delay_that_is_over_means_now(wait):
    add.using(run_after=wait).enqueue(1)
    assert "ready" == only_job().state


@in_transaction
@pytest.mark.parametrize("year", [2, 1900, 2999, 9998])
def test_a_distant_time_is_kept_and_read(year):
    when = datetime(year, 6, 1, 12, 30, 15, 123456, tzinfo=timezone(timedelta(hours=14)))
    result = add.using(run_after=when).enqueue(1)
    assert when == add.get_result(result.id).task.run_after
    assert ("scheduled" if year > 2100 else "ready") == only_job().state


@in_transaction
@pytest.mark.parametrize("zone", [None, timezone(timedelta(hours=5))], ids=str)
def test_without_time_zones_a_time_is_that_of_the_site_or_its_own(settings, zone):
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    add.using(run_after=datetime(2999, 1, 1, 12, tzinfo=zone)).enqueue(1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT run_after AT TIME ZONE 'UTC' FROM django_jobs_job")
        assert [(datetime(2999, 1, 1, 7 if zone else 3),)] == cursor.fetchall()  # noqa: DTZ001


@in_transaction
def test_an_enqueue_is_one_statement():
    with CaptureQueriesContext(
        connection,
    ) as queries:
        send.enqueue(1, customer=2)
    assert 1 == len(queries)


@in_transaction
def test_arguments_have_a_limit(settings):
    put_options(settings, {"max_payload_bytes": 100})
    add.enqueue("x" * 90)
    with pytest.raises(InvalidPayload, match="max_payload_bytes is 100"):
        add.enqueue("x" * 60, b="x" * 60)


@in_transaction
def test_what_json_cannot_say_is_told_with_its_place():
    with pytest.raises(InvalidPayload, match=r"kwargs\.items\[3\]\.price: Decimal is not JSON"):
        plain.enqueue(items=[0, 1, 2, {"price": Decimal(1)}])
    assert 0 == Job.objects.count()


@in_transaction
def test_options_are_checked_again_when_a_job_is_enqueued(settings):
    put_options(settings, QUEUES=["other"])
    with pytest.raises(InvalidTask, match=r"'default' is not in TASKS.* \(other\)\. Add it there"):
        add.enqueue(1)
    with pytest.raises(InvalidTask), transaction.atomic():
        add.enqueue_on_commit(1)


@committing
def test_aenqueue_works_in_a_running_loop():
    async def main() -> Any:
        result = await add.aenqueue(1, b=2)
        return await add.aget_result(result.id)

    assert ([1], {"b": 2}) == ((result := async_to_sync(main)()).args, result.kwargs)


@committing
def test_an_alias_of_its_own_keeps_its_jobs(backends):
    result = add.using(backend="second").enqueue(1)
    assert ("second", "second", "second") == (
        result.backend,
        result.task.backend,
        only_job().backend,
    )
    assert result.id == add.using(backend="second").get_result(result.id).id
    with pytest.raises(TaskResultDoesNotExist):
        add.get_result(result.id)


@in_transaction
def test_a_backend_that_is_called_itself_uses_its_own_alias(backends):
    result = task_backends["second"].enqueue(add, [1], {})
    assert ("second", "second") == (result.backend, result.task.backend)
    result.refresh()


@in_transaction
def test_a_result_belongs_to_its_task():
    with pytest.raises(TaskResultMismatch):
        send.get_result(add.enqueue(1).id)


@pytest.mark.parametrize("wrong", [7, None, True, b"7", 7.0, UUID(int=7)], ids=repr)
def test_an_id_is_text(wrong):
    with pytest.raises(TaskResultDoesNotExist):
        parse_id(wrong)


def test_ids_reach_as_far_as_the_column():
    assert 2**63 - 1 == parse_id(str(2**63 - 1))
    with pytest.raises(TaskResultDoesNotExist):
        parse_id(str(2**63))
