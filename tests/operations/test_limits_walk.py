"""Whatever workers do to each other, permits in use are leases, and none is left over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random, SystemRandom

import pytest

from django_jobs.models import Job, Lease, Limit
from django_jobs.operations.claim import Claimed
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.promote import promote
from django_jobs.operations.rescue import rescue
from django_jobs.operations.settle import Outcome
from tests.operations.desk import QUIET, Desk, desks, failed, lapse, succeeded
from tests.operations.limited import end_as, held, limited, take, woken

STEPS = int(os.environ.get("DJANGO_JOBS_STEPS", "300"))
SEED = int(os.environ.get("DJANGO_JOBS_SEED") or SystemRandom().randrange(10**9))
SIZES: dict[str, int | None] = {"a": 1, "b": 2, "c": 3, "d": None}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def workers() -> Iterator[list[Desk]]:
    with desks("one", "two", "three") as made:
        yield made


class Walk:
    """Three workers, what each believes to hold, and the next random step."""

    def __init__(self, workers: list[Desk], random: Random) -> None:
        self.workers = workers
        self.random = random
        self.mine: dict[int, list[Claimed]] = {place: [] for place in range(len(workers))}

    def step(self) -> None:
        """Do one thing."""
        place = self.random.randrange(len(self.workers))
        acts = (self._add, self._claim, self._claim, self._settle, self._settle, self._rescue)
        self.random.choice(acts)(place)

    def _add(self, _: int) -> None:
        key = self.random.choice(list(SIZES))
        limited(self.random.randint(1, 5), key=key, size=SIZES[key], max_attempts=50)

    def _claim(self, place: int) -> None:
        """Promote now and then, claim, and sometimes lose the answer's jobs to a lapse."""
        desk = self.workers[place]
        promote(worker=desk.id, database=desk.database)
        self.mine[place] += take(desk, room=self.random.randint(1, 6)).jobs

    def _settle(self, place: int) -> None:
        """End some: succeeded, to be tried again, or handed back; stale ones too."""
        ended = [job for job in self.mine[place] if self.random.random() < 0.6]
        self.mine[place] = [job for job in self.mine[place] if job not in ended]
        outcomes = [self.random.choice((succeeded, failed_now, returned))(job) for job in ended]
        if outcomes:
            end_as(self.workers[place], *outcomes)

    def _rescue(self, place: int) -> None:
        """Let some leases lapse; their workers will settle them in vain."""
        leases = [job.lease for jobs in self.mine.values() for job in jobs]
        lapse(*self.random.sample(leases, min(len(leases), 2)))
        desk = self.workers[place]
        keys = {job.limit_key for job in rescue(quiet=QUIET, database=desk.database)}
        for key in keys - {None}:
            woken(desk, str(key))

    def finish(self) -> None:
        """Let everything end well."""
        while Job.objects.exclude(state="succeeded").exists():
            for place, desk in enumerate(self.workers):
                Job.objects.filter(state="scheduled").update(state="ready")
                self.mine[place] += take(desk).jobs
                end_as(desk, *map(succeeded, self.mine[place]))
                self.mine[place] = []


def failed_now(job: Claimed) -> Outcome:
    """To be tried again at once."""
    return failed(job, delay=0.0)


def returned(job: Claimed) -> Outcome:
    """Handed back by a drain."""
    return handed_back(lease=job.lease, job=job.id, reason="drain")


def check() -> None:
    """Permits in use are leases, no key has too many, and a lease is a running job."""
    for row in Limit.objects.all():
        size = SIZES[row.key]
        assert row.in_use == held(row.key)
        assert size is None or row.in_use <= size
    running = set(Job.objects.filter(state="running").values_list("id", flat=True))
    assert running == set(Lease.objects.values_list("job_id", flat=True))


@pytest.mark.timeout(120 + STEPS // 5)
def test_permits_in_use_are_leases_at_every_step(workers: list[Desk]):
    print(f"DJANGO_JOBS_SEED={SEED}")  # noqa: T201 - shown when the test fails
    walk = Walk(workers, Random(SEED))
    for _ in range(STEPS):
        walk.step()
        check()
    walk.finish()
    check()
    assert {0} == set(Limit.objects.values_list("in_use", flat=True))
    assert not Lease.objects.exists()
