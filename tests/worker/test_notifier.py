"""Receivers may be slow, broken or gone; the worker and its signals go on."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from django_jobs.compat import TaskResultStatus, task_finished
from django_jobs.testing import running_worker
from django_jobs.worker import notifier
from django_jobs.worker.notifier import Ended, Notifier
from tests.processes import wait_for
from tests.tasks import boom_dropped, ok
from tests.worker.embedded import wait_for_ends

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def received(receive: Callable[[Any], None]) -> Iterator[list[str]]:
    """Connect a receiver; yield the ids of the jobs that it was told of."""
    told = []

    def receiver(task_result: Any, **_: object) -> None:
        told.append(task_result.id)
        receive(task_result)

    task_finished.connect(receiver)
    try:
        yield told
    finally:
        task_finished.disconnect(receiver)


def wait_until_told(told: list[str], *jobs: Any) -> None:
    wait_for(lambda: {job.id for job in jobs} <= set(told), what=f"told of {told}")
    assert len(told) == len(set(told)), "once each"


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, ValueError])
def test_a_receiver_that_raises_ends_no_thread(error: type[BaseException]):
    def refuse(_result: Any) -> None:
        raise error

    with received(refuse) as told, running_worker(drain_seconds=1, max_in_flight=2):
        jobs = [job.enqueue() for job in (ok, boom_dropped, ok)]
        wait_for_ends(*jobs)
        wait_until_told(told, *jobs)


def test_a_line_that_broke_between_two_announcements_is_replaced():
    others = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <>"
        " pg_backend_pid() AND datname = current_database()"
        " AND application_name NOT LIKE 'jobworker%'"
    )
    with received(lambda _: None) as told, running_worker(drain_seconds=1, max_in_flight=1):
        first = boom_dropped.enqueue()
        wait_until_told(told, first)
        with connection.cursor() as cursor:
            cursor.execute(others)
            assert 1 == cursor.fetchone()[0], "the notifier's own"
        second = boom_dropped.enqueue()
        wait_for_ends(second)
        wait_until_told(told, first, second)


def test_a_slow_receiver_lets_no_results_pile_up(monkeypatch: pytest.MonkeyPatch):
    """Of those beyond some only the ids are kept, and their rows are read in time."""

    class Result(SimpleNamespace):
        """What a receiver is sent of a success, and can be watched."""

    kept: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def ended(number: int) -> Ended:
        done = TaskResultStatus.SUCCESSFUL
        task = SimpleNamespace(module_path="tests.tasks.ok", queue_name="default")
        result: Any = Result(id=str(number), task=task, attempts=1, status=done)
        kept[number] = result
        return Ended(number, "default", result)

    read: list[int] = []

    def note_ids(ids: list[int], **_: Any) -> dict[int, Any]:
        read.extend(ids)
        return {}

    monkeypatch.setattr(notifier, "MOST_RESULTS", 3)
    monkeypatch.setattr(notifier, "results", note_ids)
    go, entered = Event(), Event()

    def slow(_result: Any) -> None:
        entered.set()
        go.wait(20)

    announcer = Notifier(database="default")
    announcer.start()
    with received(slow) as told:
        announcer.put(ended(0))
        assert entered.wait(5)
        for number in range(1, 20):
            announcer.put(ended(number))
        gc.collect()
        assert {0, 1, 2, 3} == set(kept), "one is announced, three wait"
        go.set()
        announcer.finish(5)
    assert (["0", "1", "2", "3"], list(range(4, 20))) == (told, read)


def test_a_job_is_told_of_by_its_row_when_its_result_was_not_kept(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(notifier, "MOST_RESULTS", 0)
    with received(lambda _: None) as told, running_worker(drain_seconds=1):
        jobs = [ok.enqueue(number) for number in range(3)]
        wait_for_ends(*jobs)
        wait_until_told(told, *jobs)
