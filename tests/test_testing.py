"""The aids for a site's own tests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from django_jobs import Requires
from django_jobs.models import Event, Job, Lease
from django_jobs.models import Worker as WorkerRow
from django_jobs.operations.place import place
from django_jobs.placement import Needs
from django_jobs.sql import SiteDatabase
from django_jobs.testing import assert_enqueued, capture_jobs, run_jobs, running_worker
from tests import tasks
from tests.aliases import database_time, only_job
from tests.sample_tasks import attempt_of, snooze_for
from tests.tasks import anap, boom, cancel_itself, flaky, ok


def state_of(result: Any) -> str:
    """Return the finer state that our results have."""
    return str(result.state)


class InsideATestCase(TestCase):
    """Everything happens in the test's own transaction."""

    def test_a_job_runs_and_its_result_is_there(self) -> None:
        result = ok.enqueue({"a": [1, 2]})
        ran = run_jobs()
        result.refresh()
        assert result.return_value == {"a": [1, 2]}
        assert ran.succeeded == [int(result.id)]
        assert Lease.objects.count() == 0
        assert WorkerRow.objects.count() == 0

    def test_a_job_that_may_not_run_now_holds_up_no_other(self) -> None:
        stopped, free = ok.enqueue(), ok.enqueue()
        Job.objects.filter(pk=stopped.id).update(limit_key="customer:7", limit_size=0)
        assert run_jobs().succeeded == [int(free.id)]
        stopped.refresh()
        assert state_of(stopped) == "blocked"

    def test_a_job_whose_time_to_start_is_over_expires(self) -> None:
        late = ok.enqueue()
        Job.objects.filter(pk=late.id).update(expires_at=timezone.now() - timedelta(seconds=60))
        ran = run_jobs()
        assert ([], [int(late.id)]) == (ran.succeeded, ran.ended)
        late.refresh()
        assert state_of(late) == "expired"

    def test_retries_follow_without_waiting(self) -> None:
        result = flaky.enqueue(2)
        ran = run_jobs()
        result.refresh()
        assert (result.attempts, result.return_value) == (3, 3)
        assert len(ran.retried) == 2
        assert len(result.errors) == 2

    def test_a_job_that_only_fails_dies(self) -> None:
        result = boom.enqueue("no")
        ran = run_jobs()
        result.refresh()
        assert state_of(result) == "dead"
        assert ran.ended == [int(result.id)]

    def test_coroutine_tasks_run_too(self) -> None:
        result = anap.enqueue(0.0)
        run_jobs()
        result.refresh()
        assert result.return_value == "rested"

    def test_a_future_job_waits_for_until(self) -> None:
        result = ok.using(run_after=timedelta(hours=1)).enqueue(1)
        assert run_jobs().attempts == 0
        assert run_jobs(until=timedelta(hours=2)).succeeded == [int(result.id)]

    def test_a_run_that_breaks_the_transaction_leaves_the_tests_own_usable(self) -> None:
        before = Group.objects.create(name="before")
        result = tasks.break_transaction.enqueue()
        run_jobs()
        result.refresh()
        assert state_of(result) == "dead"
        assert list(Group.objects.all()) == [before]

    def test_what_a_failing_run_wrote_stays_as_it_does_in_a_worker(self) -> None:
        tasks.write_and_fail.enqueue("kept")
        run_jobs()
        assert Group.objects.filter(name="kept").exists()

    def test_callbacks_on_commit_of_a_run_are_executed(self) -> None:
        tasks.enqueue_on_commit_of.enqueue("later")
        ran = run_jobs()
        assert len(ran.succeeded) == 2
        assert_enqueued(ok, args=["later"])

    def test_queues_are_a_list_of_those_that_take_jobs(self) -> None:
        with pytest.raises(TypeError, match=r"queues='mail' must be a list .* queues=\['mail'\]"):
            run_jobs(queues="mail")
        with pytest.raises(ValueError, match=r"'mial' is not in TASKS.* Did you mean 'mail'\?"):
            run_jobs(queues=["a", "mial"])

    async def test_a_test_that_is_a_coroutine_awaits_it(self) -> None:
        result = await anap.aenqueue(0.0)
        ran = await sync_to_async(run_jobs)()
        await result.arefresh()
        assert ([int(result.id)], "rested") == (ran.succeeded, result.return_value)

    def test_a_task_sees_its_context(self) -> None:
        result = attempt_of.using(metadata={"by": "me"}).enqueue("x")
        run_jobs()
        result.refresh()
        assert [1, False, {"by": "me"}, "x"] == result.return_value

    def test_a_task_may_snooze_for_seconds(self) -> None:
        result = snooze_for.enqueue(60)
        assert [int(result.id)] == run_jobs().put_off
        wait = only_job().run_after - database_time()
        assert timedelta(seconds=50) < wait <= timedelta(seconds=60)

    def test_a_job_runs_whatever_it_asks_of_a_host(self) -> None:
        """A test has it all."""
        asked = Requires(host="web-9", labels={"gpu"}, resources={"cpus": 64})
        results = [ok.using(requires=asked).enqueue(number) for number in range(2)]
        assert [int(result.id) for result in results] == run_jobs().succeeded

    def test_a_job_that_waits_for_the_code_of_its_task_is_left_alone(self) -> None:
        known, unknown = (
            place(Needs(task=path), database=SiteDatabase("default"))
            for path in ("tests.tasks.ok", "no.such.task")
        )
        columns: Any = {"task": "tests.tasks.ok", "args": [1], "placement": known}
        mine = Job.objects.create(**columns)
        Job.objects.create(task="no.such.task", placement=unknown)
        ran = run_jobs()
        assert ([mine.pk], 1) == (ran.succeeded, ran.attempts)

    def test_only_the_named_queues_are_run(self) -> None:
        ok.using(queue_name="a").enqueue(1)
        mine = ok.using(queue_name="b").enqueue(2)
        assert run_jobs(queues=["b"]).succeeded == [int(mine.id)]

    def test_a_task_that_cancels_itself_ends_as_cancelled(self) -> None:
        result = cancel_itself.enqueue("why")
        run_jobs()
        result.refresh()
        assert state_of(result) == "cancelled"
        assert Event.objects.get(kind="cancelled").data["reason"] == "why"


class AssertEnqueued(TestCase):
    """It finds by task, arguments and queue, and tells what there is otherwise."""

    def test_it_returns_what_matches(self) -> None:
        ok.enqueue(1)
        ok.using(queue_name="a").enqueue(value=2)
        assert len(assert_enqueued(ok)) == 2
        [found] = assert_enqueued(ok, kwargs={"value": 2}, queue_name="a", count=1)
        assert found.kwargs == {"value": 2}

    def test_it_tells_what_is_enqueued_instead(self) -> None:
        ok.enqueue("this")
        with pytest.raises(AssertionError, match=r"0 jobs of tests\.tasks\.ok .*\n.*'this'"):
            assert_enqueued(ok, args=["that"])

    def test_a_wrong_count_fails(self) -> None:
        ok.enqueue(1)
        with pytest.raises(AssertionError, match=r"1 jobs .* match any arguments, expected 2;"):
            assert_enqueued(ok, count=2)
        with pytest.raises(AssertionError, match=r"0 jobs .* match queue_name='a', expected at"):
            assert_enqueued(ok, queue_name="a")

    def test_none_may_be_what_is_wanted(self) -> None:
        assert [] == assert_enqueued(ok, count=0)
        ok.enqueue(1)
        assert [] == assert_enqueued(ok, queue_name="a", count=0)
        with pytest.raises(AssertionError, match=r"1 jobs .* expected 0"):
            assert_enqueued(ok, count=0)


class CaptureJobs(TestCase):
    """It collects what the block enqueues."""

    def test_it_collects_single_and_bulk(self) -> None:
        ok.enqueue(0)
        with capture_jobs() as jobs:
            ok.enqueue(1)
            ok.enqueue_many([ok.s(2), ok.s(3)])
        ok.enqueue(4)
        assert [job.args for job in jobs] == [[1], [2], [3]]


class RunningWorker(TransactionTestCase):
    """A real worker in a thread, gone without a trace at the end."""

    def test_it_runs_jobs_and_leaves_no_connection(self) -> None:
        with running_worker(max_in_flight=2, poll_ceiling_seconds=0.2):
            result = tasks.query.enqueue()
            wait_for(lambda: Job.objects.get(pk=result.id).state == "succeeded")
        # the server needs a moment to notice that they are closed
        wait_for(lambda: other_sessions() == 0, seconds=2)


def other_sessions() -> int:
    """Count the other sessions on this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


def wait_for(condition, seconds: float = 10.0) -> None:
    """Poll until the condition holds; fail after ``seconds``."""
    from time import monotonic, sleep

    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, "it did not happen"
        sleep(0.02)


@pytest.mark.django_db
def test_an_unknown_task_is_put_off_once_however_far_the_clock_is_turned():
    job = Job.objects.create(task="tests.tasks.gone_with_the_last_deploy")
    assert [job.pk] == run_jobs(until=timedelta(hours=1)).put_off
    assert [job.pk] == run_jobs(until=timedelta(hours=1)).put_off
