"""The soak in small: the same code as ``make soak``, one seed, a thousand jobs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.soak.chaos import Plan
from benchmarks.soak.counted import CLAIMS, Count
from benchmarks.soak.diamond import Diamond
from benchmarks.soak.run import Verdict, soak


@pytest.mark.slow
@pytest.mark.subprocess
def test_nothing_is_lost_or_ended_twice_while_workers_are_killed_and_the_server_crashes():
    verdict = soak(Plan(seed=1, jobs=1_000))
    assert verdict.holds, "\n".join(verdict.lines())


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_kills_ten_times_and_crashes_the_server_once(seed):
    plan = Plan(seed)
    waves = plan.schedule()
    acts = [act for wave in waves for _, act in wave.acts]
    assert (10, 1) == (acts.count("kill"), acts.count("crash"))
    assert plan.jobs == sum(wave.jobs for wave in waves)
    assert all(0 <= moment < wave.jobs for wave in waves for moment, _ in wave.acts)
    assert all(one <= two for wave in waves for (one, _), (two, _) in pairwise(wave.acts))


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_diamond_is_disturbed_ten_times_and_the_last_time_in_its_last_job(seed):
    plan = Diamond(seed)
    moments = plan.moments()
    assert (10, plan.middle + 1) == (len(moments), moments[-1])
    assert sorted(moments) == moments == Diamond(seed).moments()


def test_a_plan_follows_from_its_seed_alone():
    assert Plan(7).schedule() == Plan(7).schedule()
    assert Plan(7).schedule() != Plan(8).schedule()
    assert Plan(7).chance().random() == Plan(7).chance().random()


@pytest.mark.parametrize(
    ("count", "holds"),
    [
        (Count("leases left", 0), True),
        (Count("leases left", 1), False),
        (Count("rescues", 9, "at least", 10), False),
        (Count("rescues", 10, "at least", 10), True),
        (Count("rescues", 11, "at least", 10), True),
    ],
)
def test_a_count_holds_when_it_is_what_it_must_be(count, holds):
    assert holds is count.holds


def test_one_wrong_count_or_one_ill_worker_fails_the_soak():
    right = [Count(name, 0) for name in CLAIMS]
    assert Verdict(right, {}, []).holds
    assert not Verdict([*right, Count("one more", 1)], {}, []).holds
    assert not Verdict(right, {}, ["worker 1 ended with 1"]).holds
