"""A place in flight comes back, and its thread lives, whatever became of a run."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from threading import Event, Thread, current_thread
from typing import Any

import pytest
from django.db import connection

from django_jobs import constant, task
from django_jobs.models import Job, Lease
from django_jobs.operations import results
from django_jobs.testing import running_worker
from django_jobs.worker import perform, runs, site_connections
from tests.operations.desk import kinds
from tests.processes import wait_for
from tests.tasks import ok
from tests.worker.embedded import Count, row, wait_for_ends, wait_for_state

pytestmark = pytest.mark.django_db(transaction=True)

go = Event()


@pytest.fixture(autouse=True)
def _closed_gate() -> Iterator[None]:
    go.clear()
    yield
    go.set()


@task
def until_told() -> None:
    go.wait(20)


def execute(text: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text, params)


# what somebody's hand does to the row of a job that runs


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM django_jobs_job WHERE id = %s",
        "UPDATE django_jobs_job SET state = 'cancelled', finished_at = now() WHERE id = %s",
        "UPDATE django_jobs_job SET state = 'scheduled', run_after = now() + '1 h' WHERE id = %s",
    ],
    ids=["deleted", "ended", "put off"],
)
def test_the_place_of_a_job_that_was_changed_by_hand_is_freed(statement: str):
    with running_worker(drain_seconds=1, max_in_flight=1) as worker:
        job = until_told.enqueue()
        wait_for_state(job, "running")
        execute(statement, job.id)
        after = list(Job.objects.values_list("state", "attempt"))
        go.set()
        wait_for(lambda: not worker.capacity.held, what="its place is held for ever")
        assert (1, after) == (
            worker.loop.tally.lost,
            list(Job.objects.values_list("state", "attempt")),
        )
        assert ["succeeded"] == wait_for_ends(ok.enqueue())
        assert not Lease.objects.exists()
        assert Count(worker.loop, "turn").during(0.5) < 20


def test_a_job_that_was_made_ready_by_hand_while_it_ran_is_claimed_again():
    """What the first run returns is void, and no other job has to wait for it."""
    with running_worker(drain_seconds=1, max_in_flight=3) as worker:
        job = until_told.enqueue()
        wait_for_state(job, "running")
        execute("UPDATE django_jobs_job SET state = 'ready' WHERE id = %s", job.id)
        assert ["succeeded"] == wait_for_ends(ok.enqueue())
        wait_for(lambda: row(job).attempt == 2)
        go.set()
        assert ["succeeded"] == wait_for_ends(job)
        wait_for(lambda: not worker.capacity.held)
        assert (1, 2) == (worker.loop.tally.lost, worker.loop.tally.succeeded)


# faults around a run


@task(max_attempts=2, backoff=constant(0))
def try_twice() -> None:
    pass


@task(max_attempts=1)
def try_once() -> None:
    pass


def test_a_fault_of_the_tidying_up_ends_no_thread(monkeypatch: pytest.MonkeyPatch):
    tidy, faults = site_connections.tidy_connections, list[str]()

    def faulty(name: str) -> None:
        if len(faults) < 2:
            faults.append(current_thread().name)
            raise RuntimeError("the driver's own error")
        tidy(name)

    monkeypatch.setattr(runs, "tidy_connections", faulty)
    with running_worker(drain_seconds=1, max_in_flight=1) as worker:
        jobs = [ok.enqueue(number) for number in range(4)]
        assert ["succeeded"] * 4 == wait_for_ends(*jobs)
        assert ["jobs-run-1"] * 2 == faults
        [thread] = worker.runs._threads
        assert thread.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_all_the_same_is_replaced(monkeypatch: pytest.MonkeyPatch):
    work, ended = runs.Runs._work_once, list[Thread]()

    def leaving(self: runs.Runs, *given: Any) -> bool:
        goes_on = work(self, *given)
        if len(ended) < 3:
            ended.append(current_thread())
            raise SystemExit
        return goes_on

    monkeypatch.setattr(runs.Runs, "_work_once", leaving)
    with running_worker(drain_seconds=1, max_in_flight=2):
        for number in range(5):
            assert ["succeeded"] == wait_for_ends(ok.enqueue(number))
    assert 3 == len(set(ended))


@pytest.mark.parametrize(("attempts", "end"), [(2, "succeeded"), (1, "dead")])
def test_a_fault_before_the_task_begins_is_a_failed_attempt(
    monkeypatch: pytest.MonkeyPatch, attempts: int, end: str
):
    running, faults = results.running, list[int]()

    def faulty(*given: Any, **more: Any) -> Any:
        if not faults:
            faults.append(1)
            raise MemoryError
        return running(*given, **more)

    monkeypatch.setattr(perform, "running", faulty)
    with running_worker(drain_seconds=1):
        job = (try_twice if attempts == 2 else try_once).enqueue()
        assert [end] == wait_for_ends(job)
    assert attempts == row(job).attempt
    assert ["failed" if end == "succeeded" else "dead"] == kinds(int(job.id))


def test_threads_that_cannot_be_started_are_done_without(monkeypatch: pytest.MonkeyPatch):
    """The others take their jobs, and nobody asks a thousand times a second for more."""
    start, refused, scarce = Thread.start, list[str](), Event()

    def maybe(thread: Thread) -> None:
        if thread.name.startswith("jobs-run") and scarce.is_set():
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", maybe)
    with running_worker(drain_seconds=1, max_in_flight=4) as worker:
        assert ["succeeded"] == wait_for_ends(ok.enqueue())  # one thread is there
        scarce.set()
        jobs = [until_told.enqueue() for _ in range(4)]
        wait_for(lambda: len(worker.capacity.held) == 4)
        wait_for(lambda: refused)
        assert Count(worker.loop, "turn").during(0.5) < 30
        assert len(refused) < 5
        go.set()
        assert ["succeeded"] * 4 == wait_for_ends(*jobs)
        scarce.clear()
        assert ["succeeded"] == wait_for_ends(ok.enqueue())


def test_a_worker_without_any_thread_takes_up_its_jobs_once_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
):
    start, refused = Thread.start, list[str]()

    def maybe(thread: Thread) -> None:
        if thread.name.startswith("jobs-run") and len(refused) < 2:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", maybe)
    with running_worker(drain_seconds=1, max_in_flight=1):
        assert ["succeeded"] == wait_for_ends(ok.enqueue())
    assert 2 == len(refused)


# what a thread keeps


class Big(list[int]):
    """Something that a task holds in a variable, or returns."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    alive: weakref.WeakSet[Big] = weakref.WeakSet()

    def __init__(self) -> None:
        Big.alive.add(self)


@task(max_attempts=1)
def fail_with_something_big() -> None:
    big = Big()
    raise ValueError(f"with {big!r:.3}")


@task(max_attempts=1)
async def afail_with_something_big() -> None:
    big = Big()
    raise ValueError(f"with {big!r:.3}")


@task
def return_something_big() -> Any:
    return Big()


@pytest.mark.parametrize(
    "holder", [fail_with_something_big, afail_with_something_big, return_something_big]
)
def test_what_a_run_held_is_freed_while_its_thread_idles(holder: Any):
    def freed() -> bool:
        gc.collect()
        return not Big.alive

    with running_worker(drain_seconds=1, max_in_flight=2):
        wait_for_ends(*[holder.enqueue() for _ in range(3)])
        wait_for(freed, seconds=3, what=f"{len(Big.alive)} are left")


def test_a_connection_that_is_slow_to_close_holds_up_nobody(monkeypatch: pytest.MonkeyPatch):
    close, closing, closed = site_connections.close_connections, Event(), Event()

    def slow() -> None:
        if current_thread().name.startswith("jobs-run") and not closing.is_set():
            closing.set()
            closed.wait(20)  # as a driver whose network is dead
        close()

    monkeypatch.setattr(runs, "close_connections", slow)
    monkeypatch.setattr(runs, "IDLE_SECONDS", 0.05)
    with running_worker(drain_seconds=1, max_in_flight=2) as worker:
        wait_for_ends(ok.enqueue())
        assert closing.wait(5)
        begun = time.monotonic()
        try:
            assert ["succeeded"] * 3 == wait_for_ends(*[ok.enqueue() for _ in range(3)])
            assert time.monotonic() - begun < 3
            assert worker.loop.turned_at > begun
        finally:
            closed.set()
