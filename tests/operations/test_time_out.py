"""That a run is over its timeout is told once, by who holds its lease, and waits for nobody."""

from __future__ import annotations

from typing import Any

import pytest

from django_jobs.models import Event, Lease
from django_jobs.operations.claim import Claimed
from django_jobs.operations.renew import renew
from django_jobs.operations.time_out import Late, time_out
from tests.operations.desk import LEASE, Desk, jobs, kinds

pytestmark = pytest.mark.django_db(transaction=True)


def told(desk: Desk, *held: Claimed) -> set[int]:
    late = [Late(job.lease, job.id, 2.5) for job in held]
    return time_out(late, worker=desk.id, database=desk.database)


def test_the_history_names_attempt_life_worker_and_timeout(pair: list[Desk]):
    one, _ = pair
    jobs(life=3)
    [job] = one.claim()
    assert set() == told(one, job)
    event = Event.objects.get()
    found: Any = (event.kind, event.job_id, event.attempt, event.life, event.worker, event.data)
    assert ("timed_out", job.id, 1, 3, one.id, {"timeout": 2.5}) == found
    assert Lease.objects.get().timed_out_at is not None


def test_it_is_told_once_a_lease(pair: list[Desk]):
    one, _ = pair
    jobs()
    [job] = one.claim()
    told(one, job)
    at = Lease.objects.get().timed_out_at
    assert set() == told(one, job)
    assert (["timed_out"], at) == (kinds(job.id), Lease.objects.get().timed_out_at)


def test_nothing_is_told_of_a_lease_that_is_gone_or_anothers(pair: list[Desk]):
    one, two = pair
    jobs(2)
    gone, other = one.claim()
    Lease.objects.filter(pk=gone.lease).delete()
    assert set() == told(one, gone)
    assert set() == told(two, other)
    assert not Event.objects.exists()
    assert not Lease.objects.filter(timed_out_at__isnull=False).exists()


def test_a_lease_whose_id_another_job_has_by_now_is_left_alone(pair: list[Desk]):
    """After a crash a sequence may give the id of a lost claim again."""
    one, _ = pair
    jobs(2)
    first, second = one.claim()
    late = [Late(first.lease, second.id, 2.5)]
    assert set() == time_out(late, worker=one.id, database=one.database)
    assert not Event.objects.exists()


def test_a_busy_lease_is_named_and_the_others_are_told(pair: list[Desk]):
    one, two = pair
    jobs(2)
    busy, free = one.claim()
    with two.open().transaction():
        two.open().execute("SELECT FROM django_jobs_lease WHERE id = %s FOR UPDATE", [busy.lease])
        assert {busy.lease} == told(one, busy, free)
    assert ([], ["timed_out"]) == (kinds(busy.id), kinds(free.id))
    assert set() == told(one, busy)
    assert ["timed_out"] == kinds(busy.id)


def test_a_renewal_goes_on_and_forgets_nothing(pair: list[Desk]):
    one, _ = pair
    jobs()
    [job] = one.claim()
    told(one, job)
    before = Lease.objects.get()
    renew([job.lease], worker=one.id, lease_seconds=10 * LEASE, database=one.database)
    after = Lease.objects.get()
    assert before.timed_out_at == after.timed_out_at
    assert before.expires_at < after.expires_at
