"""Never more leases of a key than its size, and a free place is taken at once."""

from __future__ import annotations

import pytest

from django_jobs.models import Event, Job, Limit
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.rescue import rescue
from tests.operations.desk import (
    QUIET,
    Desk,
    answers,
    failed,
    job_row,
    jobs,
    kinds,
    lapse,
    silence,
    succeeded,
)
from tests.operations.limited import (
    KEY,
    end,
    end_as,
    held,
    in_state,
    limit,
    limited,
    meanwhile,
    opened,
    states,
    take,
    versions,
    woken,
)

pytestmark = pytest.mark.django_db(transaction=True)


# who may start


@pytest.mark.parametrize("known", [False, True], ids=["new key", "known key"])
def test_racing_claims_of_one_key_see_each_others_permits(pair: list[Desk], known: bool):
    one, two = pair
    if known:
        Limit.objects.create(key=KEY, size=2)
    limited(6, size=2)
    with opened(one) as transaction:
        assert 1 == len(take(one, room=1).jobs)
        with meanwhile(two, lambda: take(two, room=4)) as found:
            transaction.close()
    [got] = found
    assert (1, 3) == (len(got.jobs), len(got.others))
    assert {"running": 2, "blocked": 3, "ready": 1} == states()
    assert (2, 2) == (limit().in_use, held())


def test_a_full_key_blocks_a_job_once(pair: list[Desk]):
    one, two = pair
    limited(5, size=1)
    got = take(one)
    assert ["blocked"] * 4 == [other.state for other in got.others]
    before = versions("job"), versions("limit")
    for desk in (one, two, two):
        again = take(desk)
        assert (0, [], []) == (again.seen, again.jobs, again.others)
    assert before == (versions("job"), versions("limit"))


def test_a_claim_that_finds_a_key_full_does_not_write_its_row(pair: list[Desk]):
    one, two = pair
    limited(1, size=1)
    take(one)
    before = versions("limit")
    limited(3, size=1)
    assert 3 == len(take(two).others)
    assert before == versions("limit")


def test_jobs_without_a_limit_and_of_other_keys_start_beside_a_full_one(pair: list[Desk]):
    one, two = pair
    limited(1, size=1)
    take(one)
    limited(2, size=1)
    free = [*jobs(2), *limited(1, key="customer:8", size=1)]
    assert free == sorted(job.id for job in take(two).jobs)


def test_who_finds_a_key_full_and_will_not_wait_is_cancelled(pair: list[Desk]):
    one, two = pair
    limited(1, size=1)
    take(one)
    [pk] = limited(1, size=1, limit_discard=True)
    [other] = take(two).others
    assert ("cancelled", pk) == (other.state, other.id)
    row = job_row(pk)
    assert ("cancelled", 0, []) == (row.state, row.attempt, row.worker_ids)
    assert row.finished_at is not None
    [event] = Event.objects.filter(job_id=pk)
    assert ("cancelled", {"reason": "limit"}) == (event.kind, event.data)


def test_the_size_is_the_newest_claimed_jobs(pair: list[Desk]):
    one, _ = pair
    limited(3, size=5)
    limited(1, size=2)
    assert 2 == len(take(one).jobs)
    limited(2, size=3)
    assert 1 == len(take(one).jobs)


def test_a_key_that_became_smaller_does_not_go_round_in_circles(pair: list[Desk]):
    """It was full with the older size, which must not wake what the newer one blocks."""
    one, two = pair
    limited(2, size=3)
    take(one)
    limited(1, size=2)
    assert 1 == len(take(two).others)
    assert (0, {"running": 2, "blocked": 1}) == (woken(two), states())


def test_size_0_stops_a_key(pair: list[Desk]):
    one, _ = pair
    limited(3, size=0)
    assert [] == take(one).jobs
    assert (0, {"blocked": 3}) == (woken(one), states())
    assert (0, 0) == (limit().in_use, held())


# what an operator says


def test_an_operators_size_wins_at_the_next_claim(pair: list[Desk]):
    one, two = pair
    Limit.objects.create(key=KEY, size=3, override=1)
    limited(3, size=3)
    assert 1 == len(take(one).jobs)
    Limit.objects.update(override=2)
    limited(2, size=3)
    assert 1 == len(take(two).jobs)
    assert (2, 2) == (limit().in_use, held())


def test_an_operators_size_wins_at_the_wake(pair: list[Desk]):
    one, _ = pair
    limited(5, size=1)
    take(one)
    Limit.objects.update(override=3)
    assert 2 == woken(one)
    assert 2 == len(take(one).jobs)
    Limit.objects.update(override=0)
    assert 0 == woken(one)


def test_what_an_operator_stopped_goes_on_with_the_size_of_before(pair: list[Desk]):
    one, _ = pair
    Limit.objects.create(key=KEY, override=0)
    limited(3, size=2)
    assert [] == take(one).jobs
    Limit.objects.update(override=None)
    assert 2 == woken(one)
    assert 2 == len(take(one).jobs)


# a place that comes free


def test_a_freed_place_goes_to_the_most_urgent_and_then_to_the_first(pair: list[Desk]):
    one, _ = pair
    limited(1, size=1, priority=100)
    [job] = take(one).jobs
    low, first, second = *limited(1, size=1, priority=-1), *limited(2, size=1, priority=5)
    take(one)
    ran, running = [], [job]
    while running:
        end(one, *running)
        running = take(one).jobs
        ran += [job.id for job in running]
    assert [first, second, low] == ran
    assert (0, {"succeeded": 4}) == (limit().in_use, states())


@pytest.mark.parametrize(
    "ending", ["succeeded", "failed", "handed back", "rescued", "lapsed before"]
)
def test_whatever_ends_a_run_gives_its_permit_back_once(pair: list[Desk], ending: str):
    one, two = pair
    limited(3, size=2)
    job, other = take(one).jobs
    assert (2, 2) == (limit().in_use, held())
    if ending == "succeeded":
        end_as(one, succeeded(job), succeeded(job))
    elif ending == "failed":
        end_as(one, failed(job))
    elif ending == "handed back":
        end_as(one, handed_back(lease=job.lease, job=job.id, reason="drain"))
    else:
        silence(one)
        lapse(job.lease)
        [found] = rescue(quiet=QUIET, database=two.database)
        assert KEY == found.limit_key
        if ending == "lapsed before":
            assert ["lost"] == answers(one.settle(succeeded(job)))
    assert (1, 1) == (limit().in_use, held())
    end(one, other)
    assert (0, 0) == (limit().in_use, held())


def test_ends_of_one_key_at_once_give_all_permits_back(pair: list[Desk]):
    one, two = pair
    limited(3, size=2)
    [first] = take(one, room=1).jobs
    [second] = take(two, room=1).jobs
    take(one)
    with opened(one) as transaction:
        one.settle(succeeded(first))
        with meanwhile(two, lambda: end(two, second)):
            transaction.close()
    assert (0, 0, 1) == (limit().in_use, held(), len(in_state("ready")))


def test_a_job_that_is_blocked_while_a_place_comes_free_is_woken(pair: list[Desk]):
    """The end waits for the claim that found the key full, and so its wake sees the job."""
    one, two = pair
    limited(1, size=1)
    [job] = take(one).jobs
    [late] = limited(1, size=1)
    with opened(two) as transaction:
        assert "blocked" == take(two).others[0].state
        with meanwhile(one, lambda: end(one, job)):
            transaction.close()
    assert [late] == in_state("ready")


def test_two_that_wake_one_key_do_not_wait_for_each_other(pair: list[Desk]):
    one, two = pair
    limited(4, size=2)
    job, _ = take(one).jobs
    one.settle(succeeded(job))
    with opened(one):
        assert 1 == woken(one)
        assert 1 == woken(two), "one too many is blocked again by its claim"
    assert 1 == len(take(two).jobs)
    assert {"running": 2, "blocked": 1, "succeeded": 1} == states()


def test_a_key_whose_row_is_gone_is_woken_too(pair: list[Desk]):
    one, _ = pair
    limited(2, size=0)
    take(one)
    Limit.objects.all().delete()
    assert 2 == woken(one)


def test_blocked_jobs_may_be_deleted_under_the_wake(pair: list[Desk]):
    one, two = pair
    limited(3, size=1)
    [job] = take(one).jobs
    first, second = in_state("blocked")
    one.settle(succeeded(job))
    with opened(two) as transaction:
        two.open().execute("DELETE FROM django_jobs_job WHERE id = %s", [first])
        assert 1 == woken(one)
        transaction.close()
    assert ([second], []) == (in_state("ready"), kinds(second))
    assert not Job.objects.filter(pk=first).exists()
