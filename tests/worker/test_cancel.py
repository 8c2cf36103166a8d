"""A run that is asked to end does so as soon as it can, and no other run feels it."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from contextvars import copy_context
from random import Random
from threading import Event, Thread, get_ident
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from django_jobs import JobContext, constant, task
from django_jobs.compat import task_finished
from django_jobs.exceptions import JobCancelled
from django_jobs.models import Event as EventRow
from django_jobs.models import Lease
from django_jobs.operations.cancel import Cancelled, cancel
from django_jobs.testing import running_worker
from django_jobs.worker import attempt as attempts
from django_jobs.worker.interrupt import Interrupt
from django_jobs.worker.perform import call
from django_jobs.worker.run import Run
from tests.operations.desk import kinds
from tests.operations.ended import ANA
from tests.processes import wait_for
from tests.tasks import ok
from tests.worker.embedded import row, wait_for_ends, wait_for_state
from tests.worker.gates import begun, gate, seen

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("shut_gate")]

NO_TASK: Any = None
SECONDS = 60.0  # longer than a test waits


def stop(result: Any) -> Cancelled:
    begun.wait(10)
    return cancel([int(result.id)], actor=ANA, reason="wrong customer", database="default")


def asked_run(worker: Any) -> Run:
    """The one run that is held, once it has been asked to end."""
    run: Run
    [run] = worker.capacity.held.copy().values()
    wait_for(lambda: run.asked, what="It is not asked.")
    return run


@task(max_attempts=1)
async def anap_long() -> None:
    begun.set()
    await asyncio.sleep(SECONDS)


@task(max_attempts=1)
def nap_in_steps() -> None:
    begun.set()
    while True:
        time.sleep(0.01)


@task(max_attempts=1)
def go_on_after_any_error() -> None:
    begun.set()
    while True:
        with suppress(Exception):  # as careless code does
            time.sleep(0.01)


@task(max_attempts=3, backoff=constant(0))
def wait_in_c() -> str:
    begun.set()
    gate.acquire()
    return "through"


@task(max_attempts=20, backoff=constant(0))
def fail_of_it() -> None:
    begun.set()
    try:
        while True:
            time.sleep(0.01)
    except JobCancelled as error:
        raise OSError("the customer is gone") from error


@task(takes_context=True)
def end_well(context: JobContext) -> str:
    seen.append(context.cancelled)
    begun.set()
    try:
        while True:
            time.sleep(0.01)
    except JobCancelled:
        seen.append(context.cancelled)
        return "what was done is kept"


@task(takes_context=True)
async def aend_well(context: JobContext) -> str:
    seen.append(context.cancelled)
    begun.set()
    try:
        await asyncio.sleep(SECONDS)
    except asyncio.CancelledError:
        seen.append(context.cancelled)
    return "what was done is kept"


@task(takes_context=True, max_attempts=1)
def look_from_another_thread(context: JobContext) -> None:
    def look() -> None:
        begun.set()
        while not context.cancelled:
            time.sleep(0.01)
        seen.append("told")
        gate.release()

    Thread(target=look, daemon=True).start()
    gate.acquire()


@pytest.mark.parametrize("long", [anap_long, nap_in_steps, go_on_after_any_error])
def test_a_run_ends_long_before_the_next_renewal_where_its_worker_listens(long: Any):
    with running_worker(drain_seconds=1, lease_seconds=60, renew_seconds=20) as worker:
        listener = worker.listener
        wait_for(lambda: listener is not None and listener._listening)
        job = long.enqueue()
        assert Cancelled(0, 1, {}) == stop(job)
        wait_for_state(job, "cancelled", seconds=5)
        assert ["cancel_asked", "cancelled"] == kinds(int(job.id))
        assert ["succeeded"] == wait_for_ends(ok.enqueue())
    assert (1, None) == (row(job).attempt, row(job).cancel_asked_at)
    assert not Lease.objects.exists()


@pytest.mark.parametrize("long", [anap_long, nap_in_steps])
def test_a_run_ends_with_the_next_renewal_where_nobody_listens(long: Any):
    with running_worker(drain_seconds=1, lease_seconds=3, listen=False):
        job = long.enqueue()
        stop(job)
        wait_for_state(job, "cancelled", seconds=5)


def test_the_end_says_that_an_operator_wanted_it():
    with running_worker(drain_seconds=1, lease_seconds=3):
        job = anap_long.enqueue()
        stop(job)
        wait_for_state(job, "cancelled")
    data: Any = EventRow.objects.get(kind="cancelled").data
    assert {"by": "operator"} == data


def test_the_end_is_announced_once():
    told = []

    def receiver(task_result: Any, **_: object) -> None:
        told.append((task_result.id, str(task_result.state)))

    task_finished.connect(receiver)
    try:
        with running_worker(drain_seconds=1, lease_seconds=3):
            job = anap_long.enqueue()
            stop(job)
            wait_for_state(job, "cancelled")
    finally:
        task_finished.disconnect(receiver)
    assert [(job.id, "cancelled")] == told


def test_one_that_is_in_a_call_of_c_goes_on_until_it_is_back():
    with running_worker(drain_seconds=1, lease_seconds=3) as worker:
        job = wait_in_c.enqueue()
        stop(job)
        run = asked_run(worker)
        assert (None, "running") == (run.outcome, row(job).state)
        gate.release()
        wait_for_state(job, "cancelled")


def test_a_drain_that_cuts_it_off_ends_it_as_cancelled():
    with running_worker(drain_seconds=0, lease_seconds=3) as worker:
        job = wait_in_c.enqueue()
        stop(job)
        asked_run(worker)
        worker.stop()
        wait_for_state(job, "cancelled")
        gate.release()
    assert ["cancel_asked", "cancelled"] == kinds(int(job.id))


def test_a_failure_on_the_way_is_followed_by_no_attempt():
    with running_worker(drain_seconds=1, lease_seconds=3) as worker:
        job = fail_of_it.enqueue()
        stop(job)
        assert ["cancelled"] == wait_for_ends(job)
        wait_for(lambda: not worker.capacity.held)
        assert (1, 0) == (worker.loop.tally.ended, worker.loop.tally.failed)
    assert (1, "OSError: the customer is gone") == (row(job).attempt, row(job).error)


@pytest.mark.parametrize("task", [end_well, aend_well])
def test_a_task_may_end_well_all_the_same(task: Any):
    with running_worker(drain_seconds=1, lease_seconds=3):
        job = task.enqueue()
        stop(job)
        assert ["succeeded"] == wait_for_ends(job)
    assert ([False, True], "what was done is kept") == (seen, row(job).result)


def test_whoever_looks_at_the_context_sees_it():
    with running_worker(drain_seconds=1, lease_seconds=3):
        job = look_from_another_thread.enqueue()
        stop(job)
        wait_for_state(job, "cancelled")
    assert ["told"] == seen


# one that has not begun, and those beside it


def held_run() -> Any:
    """A run whose job has no more than the worker looks at here."""
    run: Any = Run(SimpleNamespace(lease=1, id=1, task="none", timeout=None, trace=None))  # type: ignore[arg-type]
    run.result = SimpleNamespace(args=[], kwargs={})
    return run


def test_one_that_has_not_begun_does_not_begin():
    run = held_run()
    run.ask()
    begun_task: Any = SimpleNamespace(takes_context=False, func=begun.set)
    with pytest.raises(JobCancelled):
        copy_context().run(call, run, begun_task, is_lost=lambda _: False)
    assert not begun.is_set()


def test_it_is_asked_once():
    run, calls = held_run(), []
    run.cancel = lambda: calls.append("cancel")
    run.ask()
    run.ask()
    assert (["cancel"], True) == (calls, run.asked)


def test_an_interrupt_reaches_only_an_open_run_and_only_once():
    interrupt = Interrupt()
    assert not interrupt.send(JobCancelled)
    interrupt.open()
    interrupt.shut()
    assert not interrupt.send(JobCancelled)
    other = Interrupt()
    with pytest.raises(JobCancelled):
        open_and_send(other)
    assert not other.send(JobCancelled)


def open_and_send(interrupt: Interrupt) -> None:
    interrupt.open()
    interrupt.send(JobCancelled)
    time.sleep(0)


def test_what_was_sent_and_not_raised_is_taken_back():
    """The thread is in a call of C from before the sending until after the shutting."""
    interrupt = Interrupt()
    back = Event()
    found: list[BaseException | None] = [None]

    def work() -> None:
        try:
            interrupt.open()
            begun.set()
            gate.acquire()
        except JobCancelled as error:
            found[0] = error
        back.set()

    thread = Thread(target=work, daemon=True)
    thread.start()
    begun.wait(5)
    assert interrupt.send(JobCancelled)
    interrupt.shut()
    gate.release()
    assert back.wait(5)
    thread.join(5)
    assert [None] == found


NO_WORKER: Any = {"worker": uuid4(), "options": None, "is_lost": lambda _: False}


class Storm:
    """One thread that runs one short call after another while another sends to all of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current: Any = None
        self.escaped: list[BaseException] = []
        self.ended: list[BaseException | None] = []
        self.over = False
        self.random = Random(1)
        monkeypatch.setattr(attempts, "call", self.body)
        monkeypatch.setattr(attempts, "judge", self.judge)

    def body(self, *_: Any, **__: Any) -> int:
        """Execute some Python, now shorter and now longer than a change of threads takes."""
        return sum(spin(number) for number in range(self.random.randrange(2000)))

    def judge(
        self, _run: Any, _task: Any, _value: Any, error: BaseException | None, **_: Any
    ) -> None:
        """Execute some more, in which nothing may be raised any more."""
        self.ended.append(error)
        sum(spin(number) for number in range(20))

    def work(self, count: int) -> None:
        """Run so many."""
        try:
            for _ in range(count):
                self.work_once()
        finally:
            self.over = True

    def work_once(self) -> None:
        """Run one, and note what is raised when it is over."""
        self.current = held_run()
        try:
            attempts.attempt(self.current, NO_TASK, **NO_WORKER)
            sum(spin(number) for number in range(5))
        except BaseException as error:  # noqa: BLE001 - what this is about
            self.escaped.append(error)

    def send(self) -> None:
        """Ask whatever runs, again and again."""
        while not self.over:
            if self.current is not None:
                self.current.interrupt.send(JobCancelled)


def spin(number: int) -> int:
    return get_ident() % (number + 1)


# What is raised inside a finalizer is printed by Python and goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_interrupt_reaches_what_comes_after_its_run(monkeypatch: pytest.MonkeyPatch):
    storm = Storm(monkeypatch)
    threads = [Thread(target=storm.work, args=[1500]), Thread(target=storm.send)]
    started(threads)
    assert [] == storm.escaped
    ends = {type(error) for error in storm.ended}
    assert {JobCancelled} <= ends <= {JobCancelled, type(None)}
    assert 1500 == len(storm.ended)


def started(threads: list[Thread]) -> None:
    """Run threads that change places often; return when they have ended."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(usual)
