"""Looks begin behind what has gone while those from the start are slow, and miss nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_jobs import task
from django_jobs.conf import Options
from django_jobs.models import Job
from django_jobs.operations.claim import Pass
from django_jobs.planner import NO_FLOOR, Lane
from django_jobs.testing import running_worker
from django_jobs.worker import Worker, floors
from django_jobs.worker.floors import Floors
from tests.processes import wait_for
from tests.worker.embedded import row, wait_for_ends

LANES = [Lane("default", 9, 0, 0, 1, 0), Lane("default", 9, 0, 0, 1, 0, suspect=True)]


def look(*firsts: list[int], took: float = 0.0) -> Pass:
    """What a claim has brought that saw these jobs first in their lanes."""
    return Pass(
        known=True,
        seen=len(firsts),
        lost=[],
        clock=None,
        placements=(0, 0),
        firsts=list(firsts),
        took=took,
        jobs=[],
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that floors see, as a list of one."""
    now = [100.0]
    monkeypatch.setattr(floors, "monotonic", lambda: now[0])
    return now


def begins(known: Floors) -> list[tuple[int, int]]:
    """Where the next look begins in each lane."""
    return [lane.floor for lane in known.raised(LANES)]


@pytest.mark.usefixtures("clock")
def test_while_looks_are_fast_each_is_from_the_start():
    known = Floors()
    for _ in range(3):
        assert [NO_FLOOR, NO_FLOOR] == begins(known)
        assert known.is_full
        known.note(look([0, 0, 0, -3, 77]))


def test_after_a_slow_one_looks_begin_at_the_first_job_of_their_lane(clock: list[float]):
    known = Floors()
    begins(known)
    known.note(look([0, 0, 0, -3, 77], took=0.02))
    assert [(-3, 77), NO_FLOOR] == begins(known)
    assert not known.is_full
    known.note(look([0, 0, 0, -3, 90], [0, 0, 1, 0, 5]))
    assert [(-3, 90), (0, 5)] == begins(known)
    known.note(look())  # it saw nothing: nothing is known of another place to begin at
    assert [(-3, 90), (0, 5)] == begins(known)
    clock[0] += 1.0
    assert [NO_FLOOR, NO_FLOOR] == begins(known)
    known.note(look([0, 0, 0, -9, 91], took=0.02))
    assert [(-9, 91), (0, 5)] == begins(known)


@pytest.mark.usefixtures("clock")
def test_a_floor_is_its_queues_whose_turn_may_become_another():
    known = Floors()
    begins(known)
    known.note(look([0, 0, 0, -3, 77], took=0.02))
    later = [Lane("first", 9, 0, 0, 1, 0), Lane("default", 9, 0, 0, 1, 1)]
    assert [NO_FLOOR, (-3, 77)] == [lane.floor for lane in known.raised(later)]


@pytest.mark.parametrize(("took", "pause"), [(0.02, 1.0), (0.5, 4.5), (60.0, 10.0)])
def test_a_look_from_the_start_takes_a_tenth_of_the_time_at_most(
    clock: list[float], took: float, pause: float
):
    known = Floors()
    begins(known)
    known.note(look([0, 0, 0, 0, 1], took=took))
    clock[0] += pause - 0.01
    begins(known)
    assert not known.is_full
    clock[0] += 0.02
    begins(known)
    assert known.is_full


@pytest.mark.usefixtures("clock")
def test_a_slow_one_that_saw_nothing_is_followed_by_one_from_the_start():
    known = Floors()
    begins(known)
    known.note(look(took=0.5))
    begins(known)
    assert known.is_full


@pytest.fixture
def resting() -> Iterator[Worker]:
    """A worker that has not been started and has no connection."""
    worker = Worker(Options("default"))
    yield worker
    worker._wakeup.close()


def test_a_worker_is_not_idle_before_a_look_from_the_start_saw_nothing(resting: Worker):
    loop = resting.loop
    loop._floors.is_full = False
    loop._pause = 5.0
    loop._set_pace(look(), rung=False)
    assert (False, False, 0.05) == (loop.idle, loop.found_nothing, loop._pause)


@task
def step() -> None:
    wait_for(lambda: True)


@pytest.fixture
def always_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a look from the start takes is too much; there are few of them."""
    monkeypatch.setattr(floors, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(floors, "FULL_SECONDS", (0.3, 0.3))


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("always_slow")
def test_a_job_that_comes_to_lie_before_the_floor_is_found_in_time(monkeypatch: Any):
    raised: list[bool] = []
    before = Floors.raised

    def watched(known: Floors, lanes: Any) -> Any:
        found = before(known, lanes)
        raised.append(any(lane.floor != NO_FLOOR for lane in found))
        return found

    monkeypatch.setattr(Floors, "raised", watched)
    first = step.enqueue_many(step.s() for _ in range(1000))
    with running_worker(max_in_flight=1):
        wait_for(lambda: sum(raised) > 3)
        urgent = step.using(priority=50).enqueue()
        assert ["succeeded"] == wait_for_ends(urgent)
        assert Job.objects.filter(pk__in=first, state="ready").count() > 100
    assert row(urgent).attempt == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("always_slow")
def test_what_is_ready_again_before_the_floor_is_taken_before_the_worker_is_idle():
    with running_worker(max_in_flight=2):
        old, _ = step.enqueue(), wait_for_ends(step.enqueue())
        wait_for_ends(old)
        Job.objects.filter(pk=int(old.id)).update(state="ready", finished_at=None)
        wait_for(lambda: row(old).attempt == 2)
        assert ["succeeded"] == wait_for_ends(old)
