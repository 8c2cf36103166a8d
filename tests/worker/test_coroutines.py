"""Coroutine tasks share an event loop; none of them may take it from the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

from django_jobs import constant, task
from django_jobs.models import Lease
from django_jobs.testing import running_worker
from tests.operations.desk import kinds
from tests.processes import wait_for
from tests.tasks import anap
from tests.worker.embedded import rescued_later, row, wait_for_ends, wait_for_state

pytestmark = pytest.mark.django_db(transaction=True)

LEAVES = {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}
ran: set[str] = set()
go = Event()


@pytest.fixture(autouse=True)
def _closed_gate() -> Iterator[None]:
    ran.clear()
    go.clear()
    yield
    go.set()


async def leave(kind: str) -> None:
    raise LEAVES[kind]


@task(max_attempts=1)
async def leave_in_a_subtask(kind: str) -> None:
    await asyncio.gather(leave(kind))


@task(max_attempts=1)
async def stop_the_loop(kind: str) -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)


@task
async def block() -> None:
    ran.add("block")
    go.wait(20)


@task(idempotent=False, max_attempts=3)
async def once(seconds: float = 0.0) -> str:
    ran.add("once")
    await asyncio.sleep(seconds)
    return "ran"


@task(max_attempts=2, backoff=constant(0))
async def rest() -> str:
    return "rested"


@pytest.mark.parametrize(
    ("bad", "kind", "end"),
    [
        (leave_in_a_subtask, "SystemExit", "dead"),
        (leave_in_a_subtask, "KeyboardInterrupt", "dead"),
        (stop_the_loop, "stop", "succeeded"),
    ],
)
def test_a_coroutine_that_leaves_the_event_loop_takes_no_other_with_it(
    bad: Any, kind: str, end: str
):
    with running_worker(drain_seconds=1):
        beside = anap.enqueue(0.3)
        wait_for_state(beside, "running")
        assert [end] == wait_for_ends(bad.enqueue(kind))
        later = [anap.enqueue(0.0) for _ in range(3)]
        assert ["succeeded"] * 4 == wait_for_ends(beside, *later)
    assert not Lease.objects.exists()


def test_a_drain_hands_back_what_never_began_and_leaves_the_rest_to_be_buried():
    """Neither may be repeated; one of them waits behind a task that blocks the event loop."""
    with running_worker(drain_seconds=0) as worker:
        begun = once.enqueue(60)
        wait_for(lambda: "once" in ran)
        ran.clear()
        block.enqueue()
        wait_for(lambda: "block" in ran)
        waiting = once.enqueue()
        wait_for(lambda: any(str(run.job.id) == waiting.id and run.result for run in held(worker)))
        worker.stop()
        wait_for_state(waiting, "ready")
        go.set()
    assert (0, [], ["handed_back"]) == (
        row(waiting).attempt,
        row(waiting).worker_ids,
        kinds(int(waiting.id)),
    )
    assert {"block"} == ran, "it must not run after it was handed back"
    assert ("running", []) == (row(begun).state, kinds(int(begun.id)))
    assert ["dead"] == [each.state for each in rescued_later(begun)]


def held(worker: Any) -> list[Any]:
    return list(worker.capacity.held.copy().values())


def test_a_hand_back_that_is_busy_is_none_the_worse_when_the_run_begins_meanwhile(
    second_connection: Any,
):
    """It finds that it was given up, and that is no failure of the job."""
    with running_worker(drain_seconds=0) as worker:
        block.enqueue()
        wait_for(lambda: "block" in ran)
        waiting = once.enqueue()
        wait_for(lambda: any(str(run.job.id) == waiting.id and run.result for run in held(worker)))
        [run] = [run for run in held(worker) if str(run.job.id) == waiting.id]
        second_connection.set_autocommit(False)
        with second_connection.cursor() as cursor:
            cursor.execute("SELECT FROM django_jobs_job WHERE id = %s FOR UPDATE", [waiting.id])
        worker.stop()
        wait_for(lambda: run.abandoned)
        go.set()
        wait_for(lambda: run.outcome is not None)
        second_connection.rollback()
        second_connection.set_autocommit(True)
        wait_for_state(waiting, "ready")
    assert (0, ["handed_back"]) == (row(waiting).attempt, kinds(int(waiting.id)))


def test_an_event_loop_whose_thread_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
):
    refused = refuse_to_start(monkeypatch, "jobs-coroutines", times=1)
    with running_worker(drain_seconds=1):
        job = rest.enqueue()
        assert ["succeeded"] == wait_for_ends(job)
    assert (1, 2, ["failed"]) == (len(refused), row(job).attempt, kinds(int(job.id)))


def refuse_to_start(monkeypatch: pytest.MonkeyPatch, name: str, *, times: int) -> list[str]:
    """Let so many threads of a name not start, as where there are no more to be had."""
    start, refused = Thread.start, list[str]()

    def scarce(thread: Thread) -> None:
        if thread.name.startswith(name) and len(refused) < times:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", scarce)
    return refused
