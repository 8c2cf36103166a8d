"""What a backend of Django's Tasks framework must do, as tests for any backend.

Combine ``BackendConformanceTests`` with ``TransactionTestCase``::

    class MyBackendTests(BackendConformanceTests, TransactionTestCase):
        backend = "my.Backend"

        def run_jobs(self, alias): ...  # run what is due under this alias, in this process
"""

# The assertions are unittest's, for whoever runs these tests without pytest.
# ruff: noqa: PT009, PT027, RUF001

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from django_jobs.compat import (
    TASKS_APP,
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from django_jobs.conformance import tasks
from django_jobs.conformance.early_import import import_early
from django_jobs.conformance.harness import Harness

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL
NO_IDS = (
    "", " ", "0", "-1", "+1", "007", "1.0", "1e3", "1_000", " 7 ", "7\n", "１２", "٣", "²", "x",
    "\x00", "9" * 19, "9" * 400, "None", "5d41402a-bc4b-2a76-b971-9d911017c592", "'; --",
)  # fmt: skip


class BackendConformanceTests(Harness):
    """Each test is a sentence about the backend that ``backend`` names."""

    # Signals

    def test_all_three_signals_come_from_the_class_of_the_backend(self) -> None:
        result = self.run_to_the_end(tasks.echo)
        sent = self.signals.of(result.id)
        self.assertEqual(["enqueued", "started", "finished"], [one.name for one in sent])
        self.assertEqual({type(task_backends[self.alias])}, {one.sender for one in sent})

    def test_started_is_sent_for_each_attempt_in_the_thread_that_runs_it(self) -> None:
        result = self.run_to_the_end(tasks.fail, "again")
        started = [one.thread for one in self.signals.of(result.id) if one.name == "started"]
        self.assertEqual(tasks.runs, started)
        self.assertEqual(result.attempts, len(started))

    def test_finished_is_sent_once_and_last_whatever_the_number_of_attempts(self) -> None:
        for task, args in ((tasks.fail_once, ()), (tasks.fail, ("always",))):
            tasks.runs.clear()
            result = self.run_to_the_end(task, *args)
            names = [one.name for one in self.signals.of(result.id)]
            self.assertEqual(["enqueued", *["started"] * result.attempts, "finished"], names)

    def test_finished_carries_the_failure_and_its_errors(self) -> None:
        result = self.run_to_the_end(tasks.fail, "with errors")
        finished = self.signals.of(result.id)[-1]
        self.assertEqual((FAILED, len(result.errors)), (finished.status, finished.errors))
        self.assertGreaterEqual(finished.errors, 1)

    def test_the_log_of_a_failure_has_its_traceback(self) -> None:
        with self.assertLogs(TASKS_APP, logging.ERROR) as logs:
            self.run_to_the_end(tasks.fail, "for the log")
        text = logging.Formatter().format(logs.records[-1])
        self.assertIn("Boom: for the log", text)
        self.assertIn("in fail", text)

    def test_a_receiver_that_raises_changes_no_outcome(self) -> None:
        def spoil(**kwargs: Any) -> None:
            raise RuntimeError("a receiver of somebody else")

        for signal in (task_enqueued, task_started, task_finished):
            signal.connect(spoil)
            self.addCleanup(signal.disconnect, spoil)
        with self.assertLogs("django.dispatch", logging.ERROR):
            result = self.run_to_the_end(tasks.echo, 1)
        self.assertEqual((SUCCESSFUL, 1), (result.status, result.attempts))

    # Enqueue

    def test_arguments_that_json_cannot_say_are_refused_before_the_insert(self) -> None:
        for bad in (object(), {1, 2}, Decimal(1), timezone.now(), float("nan"), [{"a": [b"b"]}]):
            with self.assertRaises((TypeError, ValueError)):
                self.using(tasks.echo).enqueue(bad)
            with self.assertRaises((TypeError, ValueError)):
                self.using(tasks.echo).enqueue(word=bad)
        self.run_jobs(self.alias)
        self.assertEqual([], tasks.runs)
        self.assertEqual([], self.signals.sent)

    def test_arguments_are_the_same_before_and_after_the_database(self) -> None:
        result = self.using(tasks.echo).enqueue(
            (1, 2), text="ä\x00\U0001f600", deep={"a": (None,)}
        )
        self.assertEqual([[1, 2]], result.args)
        self.assertEqual({"text": "ä\x00\U0001f600", "deep": {"a": [None]}}, result.kwargs)
        self.finish(result)
        self.assertEqual([result.args, result.kwargs], result.return_value)

    def test_invalid_tasks_are_refused_as_invalid_tasks(self) -> None:
        def local() -> None:
            """Be a function that no worker can import."""

        wrong: tuple[dict[str, Any], ...] = (
            {"func": local},
            {"func": tasks.Boom},
            {"priority": 101},
            {"priority": -101},
            {"priority": 1.5},
            {"priority": "high"},
            {"queue_name": "not in QUEUES"},
            {"queue_name": ""},
            {"run_after": datetime(2030, 1, 1)},  # noqa: DTZ001 - naive on purpose
            {"run_after": "tomorrow"},
            {"takes_context": True},
        )
        for change in wrong:
            with self.subTest(**change), self.assertRaises(InvalidTask):
                self.unchecked(tasks.echo, **change).enqueue()

    def test_enqueue_returns_a_result_that_is_ready(self) -> None:
        result = self.using(tasks.echo, priority=3).enqueue()
        self.assertIsInstance(result, TaskResult)
        self.assertIsInstance(result.id, str)
        self.assertEqual(
            (READY, self.alias, 3), (result.status, result.backend, result.task.priority)
        )
        self.assertEqual((0, [], None), (result.attempts, result.errors, result.started_at))
        self.assertFalse(result.is_finished)

    def test_what_enqueue_returns_is_what_is_read_later(self) -> None:
        result = self.using(tasks.echo, priority=3).enqueue(1, a=2)
        self.assertEqual(result, self.reload(result))

    def test_a_refused_enqueue_leaves_the_transaction_usable(self) -> None:
        with transaction.atomic():
            with self.assertRaises((TypeError, ValueError)):
                self.using(tasks.echo).enqueue(object())
            result = self.using(tasks.echo).enqueue()
        self.assertEqual(READY, self.reload(result).status)

    def test_an_enqueue_is_rolled_back_with_the_callers_transaction(self) -> None:
        with self.assertRaises(tasks.Boom), transaction.atomic():
            result = self.using(tasks.echo).enqueue()
            self.assertEqual(READY, self.reload(result).status)
            raise tasks.Boom
        with self.assertRaises(TaskResultDoesNotExist):
            self.reload(result)

    def test_keyword_arguments_named_like_options_arrive(self) -> None:
        names = "priority queue_name run_after backend takes_context func task args kwargs using "
        names += "max_attempts backoff retry_on metadata unique timeout database alias context"
        kwargs = {name: name.upper() for name in names.split()}
        result = self.run_to_the_end(tasks.echo, **kwargs)
        self.assertEqual([[], kwargs], result.return_value)

    # Results

    def test_an_id_that_is_none_is_no_result(self) -> None:
        for text in NO_IDS:
            with self.subTest(text), self.assertRaises(TaskResultDoesNotExist):
                task_backends[self.alias].get_result(text)

    def test_a_result_is_found_under_its_own_alias_only(self) -> None:
        result = self.using(tasks.echo).enqueue()
        self.assertEqual(result.id, self.reload(result).id)
        with self.assertRaises(TaskResultDoesNotExist):
            task_backends["default"].get_result(result.id)

    def test_aliases_keep_their_jobs_apart(self) -> None:
        result = tasks.echo.enqueue()
        self.run_jobs(self.alias)
        self.assertEqual(READY, self.reload(result).status)
        self.finish(result)
        self.assertEqual(("default", SUCCESSFUL), (result.backend, result.status))

    def test_a_result_whose_task_is_gone_can_be_read(self) -> None:
        result = self.reload(self.using(tasks.vanished).enqueue())
        self.assertEqual(tasks.vanished.module_path, result.task.module_path)
        with self.assertRaisesRegex(Exception, "renamed"):
            result.task.call()

    def test_a_job_whose_task_is_unknown_is_kept_and_uses_no_attempt(self) -> None:
        result = self.using(tasks.vanished).enqueue()
        self.run_jobs(self.alias)
        result = self.reload(result)
        self.assertEqual((READY, 0, []), (result.status, result.attempts, result.errors))

    def test_each_attempt_has_a_worker_id_and_keeps_it(self) -> None:
        for task, args in ((tasks.echo, ()), (tasks.fail, ("x",))):
            tasks.runs.clear()
            result = self.reload(self.run_to_the_end(task, *args))
            self.assertEqual(len(tasks.runs), result.attempts)
            self.assertEqual(result.attempts, len(result.worker_ids))
            self.assertTrue(all(result.worker_ids))

    def test_each_failed_attempt_has_its_error(self) -> None:
        result = self.reload(self.run_to_the_end(tasks.fail, "told"))
        self.assertEqual(result.attempts, len(result.errors))
        for error in result.errors:
            self.assertIs(tasks.Boom, error.exception_class)
            self.assertIn("Boom: told", error.traceback)
            self.assertIn("in fail", error.traceback)

    def test_a_failed_job_has_no_return_value(self) -> None:
        result = self.run_to_the_end(tasks.fail, "x")
        self.assertEqual(FAILED, result.status)
        with self.assertRaises(ValueError):
            _ = result.return_value

    def test_a_result_that_json_cannot_say_fails_once_and_names_its_place(self) -> None:
        result = self.run_to_the_end(tasks.unsayable)
        self.assertEqual((FAILED, 1), (result.status, len(tasks.runs)))
        self.assertIn("rows[1]", result.errors[-1].traceback)

    def test_a_task_can_take_its_context(self) -> None:
        result = self.run_to_the_end(tasks.tell_context, "word")
        self.assertEqual([1, result.id, "word"], result.return_value)

    def test_a_coroutine_function_can_be_a_task(self) -> None:
        self.assertEqual("later", self.run_to_the_end(tasks.echo_later, "later").return_value)

    def test_the_flags_of_the_backend_are_true(self) -> None:
        backend = task_backends[self.alias]
        flags = ("defer", "async_task", "get_result", "priority")
        self.assertEqual([True] * 4, [getattr(backend, f"supports_{flag}") for flag in flags])

    def test_higher_priority_runs_first(self) -> None:
        for priority in (-5, 7, 0):
            self.using(tasks.note, priority=priority).enqueue(priority)
        self.run_jobs(self.alias)
        self.wait(lambda: len(tasks.notes) == 3, "not all jobs ran")  # noqa: PLR2004
        self.assertEqual([7, 0, -5], tasks.notes)

    def test_refresh_takes_over_every_field(self) -> None:
        for ending in (tasks.echo, tasks.fail):
            early = self.using(ending).enqueue("x")
            self.finish(self.reload(early))
            early.refresh()
            self.assert_same_fields(self.reload(early), early)

    async def test_arefresh_takes_over_every_field(self) -> None:
        result = await self.using(tasks.echo).aenqueue("x")
        await result.arefresh()
        backend = task_backends[self.alias]
        self.assert_same_fields(await backend.aget_result(result.id), result)

    # Statuses and times

    def test_a_deferred_job_is_ready_and_waits(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        result = self.using(tasks.echo, run_after=later).enqueue()
        self.run_jobs(self.alias)
        result = self.reload(result)
        self.assertEqual((READY, 0), (result.status, result.attempts))
        self.assertEqual(later, result.task.run_after)

    def test_a_job_is_running_while_it_runs(self) -> None:
        self.assertEqual(RUNNING, self.run_to_the_end(tasks.tell_status).return_value)

    def test_each_attempt_starts_as_running(self) -> None:
        result = self.run_to_the_end(tasks.fail_once)
        sent = self.signals.of(result.id)
        started = [one.status for one in sent if one.name == "started"]
        self.assertEqual([RUNNING] * result.attempts, started)

    def test_all_times_are_set_in_their_order(self) -> None:
        result = self.run_to_the_end(tasks.fail, "x")
        times = (
            result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at,
        )  # fmt: skip
        known = [time for time in times if time is not None]
        self.assertEqual(sorted(times), known)
        self.assertTrue(all(timezone.is_aware(time) for time in known))
        self.assertEqual(result.attempts == 1, result.started_at == result.last_attempted_at)

    # Surroundings

    async def test_a_coroutine_can_enqueue_and_read_results(self) -> None:
        result = await self.using(tasks.echo).aenqueue("from a coroutine")
        found = await task_backends[self.alias].aget_result(result.id)
        self.assertEqual((result.id, READY), (found.id, found.status))

    def test_the_backend_can_be_imported_before_the_apps_are_ready(self) -> None:
        self.assertEqual(self.backend.rpartition(".")[2], import_early(self.backend))

    def test_the_checks_find_nothing_wrong(self) -> None:
        self.assertEqual([], list(task_backends[self.alias].check()))
