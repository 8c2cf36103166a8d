"""A run that takes longer than it may is ended where that is possible, and told of always."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from math import inf
from threading import Event, Thread, get_ident
from threading import enumerate as threads
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction

from django_jobs import JobContext, Limit, constant, task
from django_jobs.conf import Options
from django_jobs.models import Event as EventRow
from django_jobs.models import Job, Lease
from django_jobs.models import Worker as WorkerRow
from django_jobs.operations import time_out as lates
from django_jobs.operations.cancel import cancel
from django_jobs.testing import running_worker
from django_jobs.worker import Worker, coroutines
from django_jobs.worker.attempt import called
from django_jobs.worker.late import LateRuns
from django_jobs.worker.run import Run
from django_jobs.worker.timekeeper import Timekeeper
from tests.operations.desk import kinds
from tests.operations.ended import ANA
from tests.processes import wait_for
from tests.tasks import ok
from tests.worker.embedded import Count, row, wait_for_ends, wait_for_state
from tests.worker.gates import begun, gate, seen

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("shut_gate")]

SECONDS = 60.0  # longer than a test waits
SHORT = 0.2
OVER = f"TimeoutError: The run took longer than its timeout of {SHORT:g} s."


@task(takes_context=True, max_attempts=2, backoff=constant(0), timeout=SHORT)
def loop_once(context: JobContext) -> str:
    while context.attempt == 1:
        with suppress(Exception):  # as careless code does
            time.sleep(0.01)
    return "second"


@task(takes_context=True, max_attempts=2, backoff=constant(0), timeout=SHORT)
async def aloop_once(context: JobContext) -> str:
    while context.attempt == 1:
        with suppress(Exception):
            await asyncio.sleep(SECONDS)
    return "second"


@task(timeout=SHORT)
def return_late() -> str:
    try:
        time.sleep(SHORT)
        while True:
            time.sleep(0.01)
    except BaseException:  # noqa: BLE001 - it ends well all the same
        return "late"


@task(timeout=SHORT)
async def areturn_late() -> str:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(SECONDS)
    return "late"


@task(max_attempts=3, backoff=constant(0), timeout=SHORT, limit=Limit("key", size=1))
def wait_in_c() -> str:
    seen.append(get_ident())
    begun.set()
    if len(seen) == 1:
        gate.acquire()
    return "through"


@task(max_attempts=3, backoff=constant(0), timeout=SHORT)
async def await_code_in_c() -> str:
    seen.append("begun")
    if len(seen) == 1:
        await sync_to_async(gate.acquire)()
    return "through"


@task(max_attempts=3, backoff=constant(0), timeout=SHORT)
async def block_the_event_loop() -> str:
    seen.append("begun")
    if len(seen) == 1:
        gate.acquire()
    return "through"


@task(timeout=SHORT)
async def swallow() -> str:
    while gate.locked():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
    return "through"


@task(timeout=SHORT)
def swallow_in_a_thread() -> str:
    while gate.locked():
        with suppress(BaseException):
            time.sleep(0.01)
    return "through"


@task(timeout=SHORT, takes_context=True, max_attempts=1)
def look_from_another_thread(context: JobContext) -> None:
    def look() -> None:
        seen.append(context.timed_out)
        while not context.timed_out:
            time.sleep(0.01)
        seen.append(context.timed_out)
        gate.release()

    Thread(target=look, daemon=True).start()
    gate.acquire()


@task(timeout=None)
def any_time(seconds: float) -> str:
    time.sleep(seconds)
    return "in its own time"


@task
def names_none(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.01)


# what ends


@pytest.mark.parametrize("long", [loop_once, aloop_once])
def test_one_that_executes_python_fails_soon_after_and_is_tried_again(long: Any):
    with running_worker(drain_seconds=1):
        job = long.enqueue()
        wait_for(lambda: kinds(int(job.id)) == ["timed_out", "failed"], seconds=SHORT + 3)
        assert ["succeeded"] == wait_for_ends(job)
    failed, late = (EventRow.objects.get(kind=kind) for kind in ("failed", "timed_out"))
    data: Any = failed.data
    assert ("retry", OVER, "TimeoutError") == (
        data["reason"],
        data["error"],
        data["class"].rpartition(".")[2],
    )
    assert ({"timeout": SHORT}, 1, late.worker) == (late.data, late.attempt, failed.worker)
    assert (2, "second") == (row(job).attempt, row(job).result)


@pytest.mark.parametrize("late", [return_late, areturn_late])
def test_a_value_that_comes_late_is_a_success(late: Any):
    with running_worker(drain_seconds=1):
        job = late.enqueue()
        assert ["succeeded"] == wait_for_ends(job)
    assert (["timed_out"], "late") == (kinds(int(job.id)), row(job).result)


def test_a_task_that_says_none_has_no_timeout_whatever_its_worker_has():
    with running_worker(drain_seconds=2, timeout_seconds=0.1, grace_seconds=0.1):
        free, bound = any_time.enqueue(0.6), names_none.enqueue(SECONDS)
        assert ["succeeded"] == wait_for_ends(free)
        wait_for(lambda: "timed_out" in kinds(int(bound.id)))
    assert [] == kinds(int(free.id))


def test_a_timeout_may_be_longer_than_the_lease():
    with running_worker(drain_seconds=1, lease_seconds=2, renew_seconds=0.3, timeout_seconds=3):
        job = names_none.enqueue(2.5)
        assert ["succeeded"] == wait_for_ends(job)
    assert ([], 1) == (kinds(int(job.id)), row(job).attempt)


def test_whoever_looks_at_the_context_sees_it():
    with running_worker(drain_seconds=1):
        assert ["dead"] == wait_for_ends(look_from_another_thread.enqueue())
    assert [False, True] == seen


def test_it_is_logged_once(caplog: pytest.LogCaptureFixture):
    with running_worker(drain_seconds=1):
        job = loop_once.enqueue()
        wait_for_ends(job)
    lines = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    path = "tests.worker.test_timeouts.loop_once"
    assert [f"job {job.id} is over its timeout of {SHORT:g} s: {path}"] == lines


def test_a_cancel_that_came_first_decides_how_it_ends():
    with running_worker(drain_seconds=1) as worker:
        job = wait_in_c.enqueue()
        begun.wait(5)
        [run] = worker.capacity.held.values()
        cancel([int(job.id)], actor=ANA, reason="", database="default")
        wait_for(lambda: run.timed_out and run.asked)
        gate.release()
        wait_for_state(job, "cancelled")
    assert 1 == row(job).attempt


@task(timeout=SHORT)
async def use_synchronous_code() -> str:
    await sync_to_async(begun.set)()
    return "in time"


def test_a_coroutine_that_is_hit_after_its_return_has_succeeded(monkeypatch: pytest.MonkeyPatch):
    """Its connections are still being closed when its time is over."""
    monkeypatch.setattr(coroutines, "close_connections", gate.acquire)
    with running_worker(drain_seconds=1) as worker:
        job = use_synchronous_code.enqueue()
        [run] = wait_held(worker)
        wait_for(lambda: run.timed_out)
        gate.release()
        assert ["succeeded"] == wait_for_ends(job)
    assert "in time" == row(job).result


@task(timeout=SHORT)
async def tidy_up_slowly() -> str:
    begun.set()
    try:
        await asyncio.sleep(SECONDS)
    finally:
        while gate.locked():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return "never"


def test_a_coroutine_that_tidies_up_after_a_cancel_is_not_hit_again():
    with running_worker(drain_seconds=1) as worker:
        job = tidy_up_slowly.using(timeout=1).enqueue()
        [run] = wait_held(worker)
        begun.wait(5)
        run.ask()
        wait_for(lambda: run.timed_out)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), worker.runs._coroutines._loop).result(5)  # type: ignore[arg-type]
        assert run.outcome is None
        gate.release()
        wait_for_state(job, "cancelled")


# what does not end

NEVER_ENDING = [wait_in_c, await_code_in_c, block_the_event_loop, swallow, swallow_in_a_thread]


@pytest.mark.parametrize("never", NEVER_ENDING)
def test_one_that_does_not_end_keeps_its_place_its_lease_and_its_permit(
    never: Any, caplog: pytest.LogCaptureFixture
):
    given: Any = {"lease_seconds": 2, "renew_seconds": 0.3, "grace_seconds": SHORT}
    with running_worker(drain_seconds=1, max_in_flight=8, **given) as worker:
        job = never.enqueue()
        wait_for(worker.timekeeper.stuck)
        lease = Lease.objects.get()
        wait_for(lambda: Lease.objects.filter(expires_at__gt=lease.expires_at).exists())
        assert ["succeeded"] == wait_for_ends(ok.enqueue())
        assert (1, True) == (len(worker.capacity.held), lease.timed_out_at is not None)
        assert (["timed_out"], "running") == (kinds(int(job.id)), row(job).state)
        words = "does not end: its place is stuck"
        assert 1 == sum(words in each.message for each in caplog.records)
        gate.release()
        assert ["succeeded"] == wait_for_ends(job)
        wait_for(lambda: not worker.capacity.held)
        assert [] == worker.timekeeper.stuck()
    assert not Lease.objects.exists()


def test_no_job_of_its_key_starts_before_it_ends():
    with running_worker(drain_seconds=1, max_in_flight=8, grace_seconds=0) as worker:
        first = wait_in_c.enqueue()
        wait_for(worker.timekeeper.stuck)
        second = wait_in_c.enqueue()
        wait_for_state(second, "blocked")
        gate.release()
        assert ["succeeded"] * 2 == wait_for_ends(first, second)


@pytest.mark.parametrize(("places", "stuck"), [(1, 1), (4, 1), (5, 2), (8, 2)])
def test_a_quarter_of_the_places_is_too_many(places: int, stuck: int):
    worker = Worker(Options("default", max_in_flight=places))
    runs = [held_run(lease) for lease in range(stuck)]
    worker.capacity.held.update(enumerate(runs))
    for run in runs:
        assert not worker._is_clogged()
        worker.timekeeper._give_up(run)
    assert worker._is_clogged()
    runs[0].outcome = SimpleNamespace()  # type: ignore[assignment]
    assert not worker._is_clogged()
    worker.join()


def test_an_embedded_worker_says_so_by_what_it_returns(monkeypatch: pytest.MonkeyPatch):
    statuses: list[int] = []
    with running_worker(drain_seconds=5, max_in_flight=2, grace_seconds=0) as worker:
        drain = worker._drain
        monkeypatch.setattr(worker, "_drain", lambda: statuses.append(drain()))
        job = wait_in_c.enqueue()
        wait_for(lambda: statuses, seconds=5)
        wait_for_state(job, "scheduled")
        found = Job.objects.extra(where=["run_after > clock_timestamp()"]).filter(pk=int(job.id))
        assert ([70], True) == (statuses, found.exists())
        assert "stopped" == WorkerRow.objects.get().state
        gate.release()
    assert (["timed_out", "failed"], 1) == (kinds(int(job.id)), row(job).attempt)


def test_a_busy_lease_is_told_of_before_the_last_word_too(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def time_out(late: Any, **given: Any) -> set[int]:
        asked.append(worker._state)
        if asked.count("stopped") > 1:
            return lates.time_out(late, **given)
        return {each.lease for each in late}

    with running_worker(drain_seconds=5, max_in_flight=2, grace_seconds=0) as worker:
        monkeypatch.setattr("django_jobs.worker.late.time_out", time_out)
        job = wait_in_c.enqueue()
        wait_for_state(job, "scheduled")
        gate.release()
    assert asked[-2:] == ["stopped"] * 2
    assert ["timed_out", "failed"] == kinds(int(job.id))


def test_what_ends_after_the_last_word_is_void():
    with running_worker(drain_seconds=5, max_in_flight=2, grace_seconds=0) as worker:
        job = swallow_in_a_thread.enqueue()
        [run] = wait_held(worker)
        wait_for_state(job, "scheduled")
        gate.release()
        wait_for(lambda: run.outcome is not None)
    assert ("scheduled", None) == (row(job).state, row(job).result)


def test_the_last_word_on_one_that_was_cancelled_too_is_that_it_was():
    with running_worker(drain_seconds=5, max_in_flight=2, grace_seconds=1) as worker:
        job = wait_in_c.enqueue()
        [run] = wait_held(worker)
        begun.wait(5)
        run.ask()
        wait_for(lambda: run.timed_out)
        wait_for(lambda: row(job).state != "running")
        gate.release()
    assert ("cancelled", ["timed_out", "cancelled"]) == (row(job).state, kinds(int(job.id)))


def wait_held(worker: Any) -> list[Run]:
    wait_for(lambda: worker.capacity.held)
    return list(worker.capacity.held.values())


# what the loop writes


def test_without_a_timeout_there_is_no_thread_more():
    with running_worker(drain_seconds=1):
        assert ["succeeded"] == wait_for_ends(any_time.enqueue(0))
        assert "jobs-timekeeper" not in {thread.name for thread in threads()}
        wait_for_ends(loop_once.enqueue())
        assert "jobs-timekeeper" in {thread.name for thread in threads()}


def test_no_statement_is_sent_while_no_run_is_late():
    with running_worker(drain_seconds=1, timeout_seconds=SECONDS) as worker:
        sent = Count(worker.loop.database, "fetch", where=lambda name, *_: name == "time_out")
        assert ["succeeded"] * 9 == wait_for_ends(*[ok.enqueue() for _ in range(9)])
        assert 0 == sent.calls
        loop = loop_once.enqueue()
        assert ["succeeded"] == wait_for_ends(loop)
        assert 1 == sent.calls


def test_late_runs_are_told_of_in_one_statement():
    sent: list[Any] = []

    def fetch(*given: Any) -> list[Any]:
        sent.append(given)
        return []

    database: Any = SimpleNamespace(fetch=fetch)
    late = LateRuns(
        worker=uuid4(),
        options=Options("default"),
        database=database,
        held={},
        collect=lambda: [held_run(lease) for lease in (3, 4, 5)],
    )
    late.tell()
    [(name, params)] = sent
    assert ("time_out", "{3,4,5}") == (name, params["leases"])


def test_a_busy_lease_is_told_of_later_and_before_its_run_is_settled():
    with running_worker(drain_seconds=1) as worker, connections["default"].cursor() as cursor:
        job = loop_once.enqueue()
        [run] = wait_held(worker)
        with transaction.atomic():
            cursor.execute("SELECT FROM django_jobs_lease FOR UPDATE")
            wait_for(lambda: run.outcome is not None and worker.late.untold)
            calls = Count(worker.late, "tell")
            wait_for(lambda: calls.calls > 3)
        assert ["succeeded"] == wait_for_ends(job)
    assert ["timed_out", "failed"] == kinds(int(job.id))


def test_a_busy_lease_is_looked_at_again_soon_while_its_run_goes_on():
    slowly: Any = {"poll_floor_seconds": 5, "poll_ceiling_seconds": 5, "max_in_flight": 8}
    with running_worker(drain_seconds=1, **slowly) as worker:
        job = wait_in_c.using(timeout=1).enqueue()
        wait_held(worker)
        with transaction.atomic():
            Lease.objects.select_for_update().get()
            wait_for(lambda: worker.late.untold)
            calls = Count(worker.late, "tell")
            wait_for(lambda: calls.calls > 3, seconds=3)
        wait_for(lambda: kinds(int(job.id)) == ["timed_out"], seconds=3)
        gate.release()


def test_one_that_ends_while_the_loop_collects_is_told_of_before_it_is_settled(
    monkeypatch: pytest.MonkeyPatch,
):
    with running_worker(drain_seconds=1) as worker:
        collect = worker.runs.collect
        job = loop_once.enqueue()
        [run] = wait_held(worker)

        def late() -> list[Run]:
            wait_for(lambda: run.outcome is not None)
            return collect()

        monkeypatch.setattr(worker.runs, "collect", late)
        assert ["succeeded"] == wait_for_ends(job)
    assert ["timed_out", "failed"] == kinds(int(job.id))


def test_a_database_that_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    with running_worker(drain_seconds=1) as worker:
        fetch, faults = worker.loop.database.fetch, list[str]()

        def faulty(name: str, params: Any) -> Any:
            if name == "time_out" and len(faults) < 2:
                faults.append(name)
                raise psycopg.OperationalError("the line broke")
            return fetch(name, params)

        monkeypatch.setattr(worker.loop.database, "fetch", faulty)
        job = loop_once.enqueue()
        assert ["succeeded"] == wait_for_ends(job)
    assert (2, ["timed_out", "failed"]) == (len(faults), kinds(int(job.id)))


def test_one_that_the_database_refuses_holds_nothing_up(monkeypatch: pytest.MonkeyPatch):
    with running_worker(drain_seconds=1) as worker:
        fetch = worker.loop.database.fetch

        def refusing(name: str, params: Any) -> Any:
            if name == "time_out":
                raise psycopg.errors.RaiseException("a trigger of the site")
            return fetch(name, params)

        monkeypatch.setattr(worker.loop.database, "fetch", refusing)
        job = loop_once.enqueue()
        assert ["succeeded"] == wait_for_ends(job)
    assert ["failed"] == kinds(int(job.id))


# nobody else's exception


def held_run(lease: int = 1) -> Run:
    job: Any = SimpleNamespace(lease=lease, id=1, task="none", timeout=SHORT)
    return Run(job)


def test_an_interruption_that_comes_late_never_reaches_the_next_run_of_the_thread(
    monkeypatch: pytest.MonkeyPatch,
):
    """The timekeeper finds the first late, and sends when the second has begun."""
    first, second, may_send, sent = held_run(), held_run(), Event(), Event()
    first.began_at = time.monotonic() - SHORT
    time_out = Run.time_out

    def late(run: Run) -> None:
        begun.set()
        may_send.wait(5)
        time_out(run)
        sent.set()

    def body() -> str:
        may_send.set()
        sent.wait(5)
        return "".join(str(number) for number in range(100))[:0]

    monkeypatch.setattr(Run, "time_out", late)
    keeper = Timekeeper(held={1: first}, grace_seconds=9, wake_loop=lambda: None)
    sender = Thread(target=keeper.turn, daemon=True)
    sender.start()
    assert (True, None) == called(first, lambda: begun.wait(5))
    assert ("", None) == called(second, body)
    sender.join(5)
    assert (True, False) == (first.timed_out, second.timed_out)


# nobody's locks


@task(timeout=SHORT, max_attempts=1)
def keep_a_lock_of_logging() -> None:
    """Be interrupted between the step that takes the lock and the one that minds errors."""
    written.acquire()
    written.acquire()
    while True:
        time.sleep(0.01)


written = logging.StreamHandler()


def test_an_interrupted_run_leaves_no_lock_of_logging_shut():
    """Else the next thread that logs would wait for ever, and the worker with it."""
    with running_worker(drain_seconds=1):
        result = keep_a_lock_of_logging.enqueue()
        assert ["dead"] == wait_for_ends(result)
        assert row(result).error == OVER
    assert written.lock is not None
    assert written.lock.acquire(timeout=5)
    written.lock.release()


# the clock


def keeper_of(*runs: Run, grace: float = 2.0) -> tuple[Timekeeper, list[str]]:
    woken: list[str] = []
    held = {run.job.lease: run for run in runs}
    keeper = Timekeeper(held=held, grace_seconds=grace, wake_loop=lambda: woken.append("."))
    return keeper, woken


def test_the_next_look_is_at_the_next_moment_at_which_something_is_due():
    one, other = held_run(1), held_run(2)
    now = time.monotonic()
    one.timeout, one.began_at, other.timeout, other.began_at = 50.0, now, 30.0, now - 10
    keeper, woken = keeper_of(one, other)
    assert 20.0 == pytest.approx(keeper.turn(), abs=0.5)
    other.began_at = now - 31
    assert 1.0 == pytest.approx(keeper.turn(), abs=0.5)  # of its grace
    assert ([other], [False, True], ["."]) == (
        keeper.collect(), [one.timed_out, other.timed_out], woken,
    )  # fmt: skip
    other.began_at = now - 33
    assert 50.0 == pytest.approx(keeper.turn(), abs=0.5)
    assert ([], [other]) == (keeper.collect(), keeper.stuck())


def test_one_that_has_not_begun_is_looked_at_no_later_than_it_can_be_late():
    waiting = held_run()
    waiting.timeout = 7.0
    keeper, _ = keeper_of(waiting)
    assert 7.0 == pytest.approx(keeper.turn(), abs=0.5)
    assert not waiting.timed_out


def test_a_run_is_asked_to_end_once():
    run = held_run()
    run.cancel = lambda: seen.append("cancel")
    run.time_out()
    run.time_out()
    assert (["cancel"], True, False) == (seen, run.timed_out, run.asked)


def test_it_is_noted_before_the_run_is_asked_to_end(monkeypatch: pytest.MonkeyPatch):
    """Else a run that ends at once could be settled before its history says why."""
    run = held_run()
    run.began_at = 0.0
    keeper, _ = keeper_of(run)
    monkeypatch.setattr(Run, "time_out", lambda _: seen.extend(keeper.collect()))
    keeper.turn()
    assert [run] == seen


def test_one_that_has_ended_is_left_alone():
    ended, endless = held_run(1), held_run(2)
    ended.outcome = SimpleNamespace()  # type: ignore[assignment]
    endless.timeout = None
    ended.began_at = endless.began_at = 0.0
    keeper, woken = keeper_of(ended, endless)
    assert inf == keeper.turn()
    assert ([], []) == (keeper.collect(), woken)


def test_one_that_commits_its_end_is_not_ended_and_no_place_is_lost_to_it():
    run = held_run()
    run.settling, run.began_at = True, time.monotonic() - SHORT
    keeper, _ = keeper_of(run)
    assert 2.0 == pytest.approx(keeper.turn(), abs=0.5)
    assert ([], False, []) == (keeper.collect(), run.timed_out, keeper.stuck())
    run.began_at -= 2.0
    assert inf == keeper.turn()
    assert ([], False, [run]) == (keeper.collect(), run.timed_out, keeper.stuck())


def test_one_that_commits_in_a_process_of_its_own_is_ended():
    run = held_run()
    run.settling, run.began_at, run.kill = True, time.monotonic() - SHORT, lambda: True
    keeper, _ = keeper_of(run)
    keeper.turn()
    assert ([run], True) == (keeper.collect(), run.timed_out)
