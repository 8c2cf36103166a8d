"""``claim.sql`` takes exactly the jobs that the planner deals, in its order."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random, SystemRandom
from uuid import UUID

import pytest

from django_jobs.models import Job, Lease
from django_jobs.planner import Turns
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.run import Run
from tests.worlds import (
    finish,
    planned,
    random_jobs,
    random_lanes,
    random_queues,
    register,
    take,
    undone,
)

# DJANGO_JOBS_WORLDS=2000 tries more of them, DJANGO_JOBS_SEED repeats a run that failed.
WORLDS = int(os.environ.get("DJANGO_JOBS_WORLDS", "300"))
SEED = int(os.environ.get("DJANGO_JOBS_SEED") or SystemRandom().randrange(10**9))

pytestmark = pytest.mark.django_db


@contextmanager
def world(number: int) -> Iterator[Random]:
    """Make a world's randomness, and forget the world's rows at the end."""
    try:
        with undone():
            yield Random(f"{SEED} {number}")
    except AssertionError as error:
        error.add_note(f"world {number} of DJANGO_JOBS_SEED={SEED}")
        raise


@pytest.mark.slow
@pytest.mark.timeout(120 + WORLDS // 5)
def test_a_claim_takes_what_the_planner_deals_in_its_order():
    print(f"DJANGO_JOBS_SEED={SEED}")  # noqa: T201 - shown when the test fails
    for number in range(WORLDS):
        with world(number) as random:
            random_queues(random)
            random_jobs(random)
            offered, room = random_lanes(random), random.randint(1, 12)
            cards = planned(offered, room=room)
            got = take(offered, room=room, worker=register())
            assert [card.urgency[1] for card in cards] == [job.id for job in got.jobs]
            assert (cards[-1].at if cards else None) == got.clock
            assert (True, []) == (got.known, got.lost)
            assert [job.lease for job in got.jobs] == sorted(job.lease for job in got.jobs)


@pytest.mark.timeout(120 + WORLDS // 5)
def test_passes_in_a_row_take_what_the_planner_deals():
    """With jobs that end in between or do not, new ones, and two memories of the turns."""
    for number in range(WORLDS // 10):
        with world(number) as random:
            random_queues(random)
            weights = {"default": random.randint(1, 5), "mail": random.choice((1, 7, 997))}
            queues = random.sample(("default", "mail", "imports", "photos"), 3)
            capacity = Capacity(
                cap=random.randint(1, 9),
                slots={"mail": random.randint(1, 3)},
                default_slots=4,
            )
            mine, theirs = Turns(weights), Turns(weights)
            worker = register()
            for _ in range(random.randint(3, 12)):
                random_jobs(random, most=20)
                room = capacity.room()
                if not room:
                    break
                cards = planned(capacity.lanes(queues, mine), room=room)
                got = take(capacity.lanes(queues, theirs), room=room, worker=worker)
                assert [card.urgency[1] for card in cards] == [job.id for job in got.jobs]
                if cards:
                    mine.advance(Counter(card.queue for card in cards), cards[-1].at)
                if got.clock is not None:
                    theirs.advance(got.cards, got.clock)
                capacity.take(Run(job) for job in got.jobs)
                _check_caps(capacity, worker)
                _end_some(random, capacity, worker)


def _check_caps(capacity: Capacity, worker: UUID) -> None:
    running = Job.objects.filter(pk__in=Lease.objects.filter(worker=worker).values("job_id"))
    assert running.count() == len(capacity.held) <= capacity.cap
    assert running.filter(suspect=True).count() <= 1


def _end_some(random: Random, capacity: Capacity, worker: UUID) -> None:
    ended = [run.job for run in capacity.held.values() if random.random() < 0.6]
    finish(ended, worker=worker)
    for job in ended:
        capacity.release(job.lease)
