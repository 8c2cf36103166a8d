"""However a worker ends, what it held is given back and nothing of it stays."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from django.db import connection

from django_jobs import task
from django_jobs.conf import Options
from django_jobs.models import Lease
from django_jobs.models import Worker as WorkerRow
from django_jobs.testing import running_worker
from django_jobs.worker import Worker
from django_jobs.worker.stopping import LATE_SECONDS, Stop
from django_jobs.worker.wakeup import Wakeup
from tests.operations.desk import kinds
from tests.processes import wait_for
from tests.tasks import anap, ok
from tests.worker.embedded import Count, row, wait_for_ends, wait_for_state
from tests.worker.fleet import Fleet

go = Event()


@pytest.fixture(autouse=True)
def _closed_gate() -> Iterator[None]:
    go.clear()
    yield
    go.set()


@task(max_attempts=1)
def until_told() -> None:
    go.wait(20)


# what stops it


@pytest.fixture
def stop() -> Iterator[Stop]:
    wakeup = Wakeup()
    yield Stop(wakeup, seconds=60)
    wakeup.close()


def test_a_call_and_a_signal_stop_and_a_second_signal_ends_it_at_once(stop: Stop):
    assert (False, 0) == (stop.is_asked, stop.status)
    stop._on_signal(signal.SIGTERM, None)
    stop.begin()
    assert (True, 0, True) == (stop.is_asked, stop.status, stop.left() > 59)
    stop.ask()
    assert (0, True) == (stop.status, stop.left() > 59), "asked twice is no second signal"
    stop._on_signal(signal.SIGINT, None)
    assert (130, 0.0) == (stop.status, stop.left())


def test_only_a_worker_that_owns_its_process_is_overdue(stop: Stop):
    assert stop.overdue() is None
    stop.begin()
    stop._deadline = monotonic() - LATE_SECONDS - 1
    assert stop.overdue() is None
    stop._owns_process = True
    assert 0 == stop.overdue()
    stop._on_signal(signal.SIGTERM, None)
    stop._on_signal(signal.SIGTERM, None)
    assert 143 == stop.overdue()


def test_a_second_signal_leaves_what_handing_back_takes(stop: Stop):
    stop._owns_process = True
    stop.begin()
    stop._on_signal(signal.SIGTERM, None)
    stop._on_signal(signal.SIGTERM, None)
    assert stop.overdue() is None, "the time to hand back begins with it"


def test_a_signal_starts_the_time_also_while_the_loop_hangs_in_a_statement(stop: Stop):
    stop._owns_process = True
    stop._on_signal(signal.SIGTERM, None)
    assert stop.overdue() is None
    assert 59 < stop.left() <= 60


# how it ends

transactional = pytest.mark.django_db(transaction=True)


class Failing:
    """A worker in a thread, and the fault that ended it."""

    def __init__(self) -> None:
        self.worker = Worker(Options("default", drain_seconds=1, max_in_flight=3))
        self.fault: BaseException | None = None
        self.thread = Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as fault:  # noqa: BLE001 - it is what the test looks at
            self.fault = fault


@transactional
@pytest.mark.parametrize("fault", [RuntimeError, MemoryError, KeyboardInterrupt])
def test_a_fault_of_the_loop_hands_back_what_is_held(fault: type[BaseException]):
    failing = Failing()
    jobs = [until_told.enqueue() for _ in range(2)]
    for job in jobs:
        wait_for_state(job, "running")
    turn = failing.worker.loop.turn

    def faulty(*, claiming: bool, **more: Any) -> float:
        if claiming:
            raise fault
        return turn(claiming=claiming, **more)

    failing.worker.loop.turn = faulty  # type: ignore[method-assign]
    failing.worker.loop.ring()
    failing.thread.join(10)
    go.set()
    failing.worker.join()
    assert fault is type(failing.fault)
    assert failing.worker.has_cut_off_runs
    assert [("ready", 0, ["handed_back"])] * 2 == [
        (row(job).state, row(job).attempt, kinds(int(job.id))) for job in jobs
    ]
    assert not Lease.objects.exists()
    assert ["stopped"] == list(WorkerRow.objects.values_list("state", flat=True))


@transactional
def test_a_drain_waits_without_spinning():
    """Also one that begins between the pass that said idle and the next look."""
    with running_worker(drain_seconds=10, max_in_flight=2) as worker:
        job = until_told.enqueue()
        wait_for_state(job, "running")
        say_idle = worker.loop._say_idle

        def and_stop(*, idle: bool) -> None:
            say_idle(idle=idle)
            worker.stop()

        worker.loop._say_idle = and_stop  # type: ignore[method-assign]

        def draining() -> bool:
            worker.loop.idle = False  # again each time: the loop may just be saying it
            worker.loop.ring()
            return worker._state == "draining"

        wait_for(draining)
        assert Count(worker.loop, "turn").during(0.5) < 20
        go.set()
        wait_for_ends(job)


@transactional
def test_an_embedded_worker_leaves_no_file_open():
    def work() -> int:
        with running_worker(drain_seconds=1):
            assert ["succeeded"] * 2 == wait_for_ends(ok.enqueue(), anap.enqueue(0.0))
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    connection.ensure_connection()
    before = work()
    assert [before] * 3 == [work() for _ in range(3)]


BREAK_THE_LOOP = """
import django.core.management.base as base
execute = base.BaseCommand.execute
def executed(self, *args, **options):
    from django_jobs.worker.loop import Loop
    turn = Loop.turn
    def broken(loop, **given):
        if given["claiming"] and len(loop._capacity.held) == 2:
            from tests.worker.tasks import marks
            if marks("a") and marks("b"):
                raise RuntimeError("a fault of ours")
        return turn(loop, **given)
    Loop.turn = broken
    return execute(self, *args, **options)
base.BaseCommand.execute = executed
"""


@pytest.mark.subprocess
def test_a_worker_at_fault_hands_back_and_exits_1_at_once(fleet: Fleet, end: Callable[[], Path]):
    """Although a run of it is in a thread that Python would wait for at its exit."""
    held = [
        fleet.put_one("tests.worker.tasks.until", "a", str(end()), max_attempts=1),
        fleet.put_one("tests.worker.tasks.sleep_in_a_thread", "b", 30, max_attempts=1),
    ]
    worker = fleet.started(**fleet.injected(BREAK_THE_LOOP))
    begun = time.monotonic()
    assert 1 == worker.wait()
    assert time.monotonic() - begun < 8
    assert "a fault of ours" in worker.log()
    assert {("ready", 0)} == {(fleet.job(pk).state, fleet.job(pk).attempt) for pk in held}
    assert fleet.nothing_held()
