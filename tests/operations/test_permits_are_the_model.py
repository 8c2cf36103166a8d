"""``claim.sql`` gives out permits exactly as a page of arithmetic says."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random, SystemRandom
from typing import Any

import pytest
from django.db import connection

from django_jobs.models import Job, Limit
from tests.worlds import add, lanes, register, take, undone

# DJANGO_JOBS_WORLDS=2000 tries more of them, DJANGO_JOBS_SEED repeats a run that failed.
WORLDS = int(os.environ.get("DJANGO_JOBS_WORLDS", "300"))
SEED = int(os.environ.get("DJANGO_JOBS_SEED") or SystemRandom().randrange(10**9))
KEY = "customer:7"

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Asked:
    """One job of the key, in the order in which the jobs are dealt."""

    rated: bool  # it has had its time, or knows no rate
    discard: bool


@dataclass(frozen=True)
class Key:
    """What is in force for a claim: sizes, and the rate as seconds from now."""

    size: int | None
    in_use: int
    every: float
    burst: int
    ahead: float  # next_at, seconds from now; not positive: nothing is owed


def permits(key: Key, asked: list[Asked], *, patient: bool) -> tuple[list[Any], int, float | None]:
    """Say what becomes of each: a state, or the seconds until its time; and what is left.

    Those that had their time come first. Of the others so many start as burst and size
    allow; when it was the burst that ended it, the rest get times, one ``every`` apart.
    """
    free = math.inf if key.size is None else max(key.size - key.in_use, 0)
    timely = sum(job.rated for job in asked)
    unrated = len(asked) - timely
    base = max(key.ahead, 0.0)
    going = min(timely, free)
    unspent = max(key.burst - math.ceil(base / key.every), 0) if unrated else 0
    passed = min(unrated, unspent, free - going)
    deferred = unrated - passed if patient and passed == unspent else 0
    told: list[Any] = []
    seen = {True: 0, False: 0}
    for job in asked:
        seen[job.rated] += 1
        nth = seen[job.rated]
        if nth <= (going if job.rated else passed):
            told.append("running")
        elif not patient:
            told.append("cancelled")
        elif deferred and not job.rated:
            told.append(base + (nth - key.burst) * key.every)
        else:
            told.append("blocked")
    after = base + (passed + deferred) * key.every if unrated else None
    return told, key.in_use + int(going + passed), after


@contextmanager
def world(number: int) -> Iterator[Random]:
    """Make a world's randomness, and forget the world's rows at the end."""
    try:
        with undone():
            yield Random(f"{SEED} {number}")
    except AssertionError as error:
        error.add_note(f"world {number} of DJANGO_JOBS_SEED={SEED}")
        raise


def random_key(random: Random) -> tuple[Key, bool]:
    """Return a key in some state, and whether its row is there already."""
    every = random.choice((60.0, 600.0))  # long, so that the time this takes changes nothing
    known = random.random() < 0.8
    ahead = random.choice((-1.0, random.randint(0, 8) + 0.5)) * every if known else -1.0
    return Key(
        size=random.choice((None, 0, 1, 2, 5, 9)),
        in_use=random.randint(0, 6) if known else 0,
        every=every,
        burst=random.choice((1, 1, 2, 5)),
        ahead=ahead,
    ), known


def random_asked(random: Random) -> list[Asked]:
    """Return jobs of the key, of which the newest says whether they wait."""
    discard, has_rate = random.random() < 0.3, random.random() < 0.8
    return [
        Asked(rated=not has_rate or random.random() < 0.3, discard=discard)
        for _ in range(random.randint(1, 9))
    ]


def fill(key: Key, asked: list[Asked], *, known: bool, overridden: bool) -> list[int]:
    """Write the rows; return the ids of the jobs, in order."""
    now = _now()
    if known:
        Limit.objects.create(
            key=KEY,
            size=7 if overridden else key.size,
            override=key.size if overridden else None,
            in_use=key.in_use,
            next_at=None if key.ahead < 0 else now + timedelta(seconds=key.ahead),
        )
    found = []
    for job in asked:
        found += add(
            "default",
            limit_key=KEY,
            limit_size=3 if overridden else key.size,
            limit_every=key.every,
            limit_burst=key.burst,
            limit_discard=job.discard,
            reserved_at=now - timedelta(seconds=random_age(job)) if job.rated else None,
        )
    return found


def random_age(job: Asked) -> float:
    """Those that had their time are within the grace."""
    return 4.0 if job.rated else 0.0


def _now() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


@pytest.mark.timeout(120 + WORLDS // 5)
def test_a_claim_gives_out_permits_as_the_model_says():
    print(f"DJANGO_JOBS_SEED={SEED}")  # noqa: T201 - shown when the test fails
    for number in range(WORLDS):
        with world(number) as random:
            key, known = random_key(random)
            asked = random_asked(random)
            overridden = known and key.size is not None and random.random() < 0.3
            pks = fill(key, asked, known=known, overridden=overridden)
            told, in_use, after = permits(key, asked, patient=not asked[-1].discard)
            begun = _now()
            take(lanes("default"), room=50, worker=register())
            check(pks, told, begun)
            row = Limit.objects.get(pk=KEY)
            assert in_use == row.in_use
            if after is not None:
                assert after == pytest.approx((row.next_at - begun).total_seconds(), abs=0.5)


def check(pks: list[int], told: list[Any], begun: Any) -> None:
    """Hold the jobs as they are now against the model."""
    jobs = Job.objects.in_bulk(pks)
    for pk, wanted in zip(pks, told, strict=True):
        job = jobs[pk]
        if isinstance(wanted, str):
            assert wanted == job.state
        else:
            assert "scheduled" == job.state
            ahead = (job.run_after - begun).total_seconds()
            assert wanted == pytest.approx(ahead, abs=0.5)
            assert job.reserved_at == job.run_after
