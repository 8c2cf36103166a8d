"""A rate holds in every span of time, and each job is moved once for it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Any

import pytest
from django.db import connection

from django_jobs.models import Job
from django_jobs.operations.claim import Claimed
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.promote import promote
from django_jobs.operations.rescue import rescue
from django_jobs.operations.settle import Outcome
from tests.operations.desk import QUIET, Desk, desks, failed, lapse, succeeded
from tests.operations.limited import (
    EVERY,
    end,
    end_as,
    held,
    in_state,
    limit,
    rated,
    states,
    take,
    woken,
)

GRACE = 10.0
SEED = int(os.environ.get("DJANGO_JOBS_SEED") or SystemRandom().randrange(10**9))

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> Iterator[Desk]:
    with desks("one") as [made]:
        yield made


def pass_time(seconds: float) -> None:
    """Let all times of the rows lie so much further back."""
    statements = {
        "django_jobs_limit": ("next_at",),
        "django_jobs_job": ("run_after", "reserved_at"),
    }
    with connection.cursor() as cursor:
        for table, columns in statements.items():
            moved = ", ".join(f"{name} = {name} - make_interval(secs => %s)" for name in columns)
            cursor.execute(f"UPDATE {table} SET {moved}", [seconds] * len(columns))


def delays(pks: list[int]) -> list[float]:
    """How long after the first start each of these is to start."""
    started: Any = Job.objects.exclude(started_at=None).values_list("started_at", flat=True)
    first = min(started)
    rows: dict[int, Any] = Job.objects.in_bulk(pks)
    assert all(rows[pk].run_after == rows[pk].reserved_at for pk in pks)
    return [(rows[pk].run_after - first).total_seconds() for pk in pks]


@pytest.mark.parametrize("burst", [1, 5])
def test_after_the_burst_the_rest_get_consecutive_times(desk: Desk, burst: int):
    pks = rated(burst + 6, burst=burst)
    got = take(desk)
    assert pks[:burst] == [job.id for job in got.jobs]
    assert pks[burst:] == [other.id for other in got.others]
    wanted = [EVERY * nth for nth in range(1, 7)]
    assert wanted == pytest.approx(delays(pks[burst:]), abs=0.05)
    late = rated(2, burst=burst)
    assert [] == take(desk).jobs
    assert [EVERY * 7, EVERY * 8] == pytest.approx(delays(late), abs=0.05)


def test_a_job_is_moved_once_for_its_rate(desk: Desk):
    pks = rated(3, burst=1)
    take(desk)
    for pk in pks[1:]:
        pass_time(EVERY + 0.01)
        assert 1 == promote(worker=desk.id, database=desk.database)
        got = take(desk)
        assert ([pk], []) == ([job.id for job in got.jobs], got.others)
    assert {"running": 3} == states()


def test_a_retry_is_rated_anew(desk: Desk):
    rated(1, burst=1)
    [job] = take(desk).jobs
    end_as(desk, failed(job, delay=0.0))
    promote(worker=desk.id, database=desk.database)
    assert ["scheduled"] == [other.state for other in take(desk).others]
    assert [EVERY] == pytest.approx(delays([job.id]), abs=0.05)


def test_a_rescued_job_is_rated_anew(desk: Desk):
    rated(1, burst=1, backoff="constant", backoff_base=0.0, backoff_jitter=0.0)
    [job] = take(desk).jobs
    lapse(job.lease)
    assert 1 == len(rescue(quiet=QUIET, database=desk.database))
    promote(worker=desk.id, database=desk.database)
    assert ["scheduled"] == [other.state for other in take(desk).others]


def test_a_hand_back_is_not_rated_anew(desk: Desk):
    rated(1, burst=1)
    [job] = take(desk).jobs
    before = limit().next_at
    end_as(desk, handed_back(lease=job.lease, job=job.id, reason="drain"))
    assert [job.id] == [again.id for again in take(desk).jobs]
    assert before == limit().next_at


def test_who_comes_long_after_its_time_is_rated_anew(desk: Desk):
    """Else all that an outage held up would start at its end."""
    rated(30, burst=1)
    take(desk)
    pass_time(30 * EVERY + GRACE)
    promote(worker=desk.id, database=desk.database)
    got = take(desk)
    assert {"running": 1 + len(got.jobs), "scheduled": 29 - len(got.jobs)} == states()
    assert len(got.jobs) <= 1 + GRACE / EVERY


def test_size_and_rate_hold_together(desk: Desk):
    """The tighter of them decides: here the size, so nobody is given a time."""
    rated(8, burst=5, size=2)
    got = take(desk)
    assert {"running": 2, "blocked": 6} == states()
    first, second = got.jobs
    end(desk, first, second)
    assert 2 == len(take(desk).jobs), "the burst has room for three more"
    assert (2, 2) == (limit().in_use, held())


def test_who_had_its_time_and_finds_no_place_waits_for_one(desk: Desk):
    pks = rated(3, burst=1, size=1)
    [job] = take(desk).jobs
    assert {"running": 1, "scheduled": 2} == states()
    pass_time(EVERY + 0.01)
    promote(worker=desk.id, database=desk.database)
    assert ["blocked"] == [other.state for other in take(desk).others]
    assert (0, 1) == (woken(desk), len(in_state("scheduled")))
    end(desk, job)
    assert [pks[1]] == [again.id for again in take(desk).jobs]


def test_who_will_not_wait_for_a_rate_is_cancelled(desk: Desk):
    rated(4, burst=2, limit_discard=True)
    before = time.time()
    got = take(desk)
    assert (2, ["cancelled"] * 2) == (len(got.jobs), [other.state for other in got.others])
    row: Any = limit()
    assert row.next_at.timestamp() - before == pytest.approx(2 * EVERY, abs=0.2)


def test_a_rate_without_a_size_knows_no_other_bound(desk: Desk):
    rated(40, burst=40)
    assert 40 == len(take(desk).jobs)
    assert (40, 40) == (limit().in_use, held())


@dataclass
class Clock:
    """The time that the rows believe in: what has passed, and what was let pass."""

    skipped: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begun + self.skipped

    def skip(self, seconds: float) -> None:
        """Go on."""
        pass_time(seconds)
        self.skipped += seconds


def ending(random: Random, job: Claimed) -> Outcome:
    """Most succeed; some are tried again."""
    return failed(job, delay=random.random()) if random.random() < 0.2 else succeeded(job)


@pytest.mark.parametrize("size", [None, 3], ids=["no size", "size 3"])
@pytest.mark.parametrize("burst", [1, 5])
def test_no_span_of_time_has_more_starts_than_the_rate_allows(
    desk: Desk, burst: int, size: int | None
):
    """Random rooms, pauses, outages, ends and retries."""
    print(f"DJANGO_JOBS_SEED={SEED}")  # noqa: T201 - shown when the test fails
    random, clock = Random(f"{SEED} {burst} {size}"), Clock()
    starts: list[float] = []
    running: list[Any] = []
    for step in range(120):
        if step % 12 == 0 or random.random() < 0.5:
            rated(random.randint(1, 4), burst=burst, size=size)
        clock.skip(random.choice((0.1, 0.3, 0.7, 2.0, 5.0 if random.random() < 0.8 else 40.0)))
        promote(worker=desk.id, database=desk.database)
        woken(desk)
        before = clock.now()
        got = take(desk, room=random.randint(1, 9))
        starts += [before] * len(got.jobs)
        running += got.jobs
        ended = [job for job in running if random.random() < 0.6]
        running = [job for job in running if job not in ended]
        end_as(desk, *(ending(random, job) for job in ended))
        assert len(running) == held() == limit().in_use
    assert len(starts) > 40
    for first, begun in enumerate(starts):
        for nth, other in enumerate(starts[first:], 1):
            assert nth <= burst + (other - begun + GRACE) / EVERY + 0.1
