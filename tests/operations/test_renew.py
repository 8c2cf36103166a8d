"""A worker keeps what it holds alive, and never waits for a row."""

from __future__ import annotations

import pytest

from django_jobs.models import Lease, Worker
from django_jobs.operations.renew import held_leases, raise_epoch, renew
from django_jobs.operations.rescue import rescue
from tests.operations.desk import (
    LEASE,
    QUIET,
    Desk,
    desks,
    forget,
    jobs,
    lapse,
    silence,
    succeeded,
)

pytestmark = pytest.mark.django_db(transaction=True)


def renewed(desk: Desk, *leases: int) -> dict[int, bool]:
    answers = renew(leases, worker=desk.id, lease_seconds=LEASE, database=desk.database)
    return {lease: answer.renewed for lease, answer in answers.items()}


def test_renewing_tells_held_busy_and_lost_apart(pair: list[Desk]):
    one, two = pair
    jobs(3)
    held, busy, lost = one.claim()
    lapse(held.lease)
    Lease.objects.filter(pk=lost.lease).delete()
    with two.open().transaction():
        two.open().execute("SELECT FROM django_jobs_lease WHERE id = %s FOR UPDATE", [busy.lease])
        found = renewed(one, busy.lease, held.lease, lost.lease)
    assert {held.lease: True, busy.lease: False} == found
    assert not Lease.objects.lapsed().exists()


def test_a_lease_of_another_worker_is_not_renewed(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    lapse(job.lease)
    assert {} == renewed(two, job.lease)
    assert Lease.objects.lapsed().exists()


def test_a_settle_that_has_not_committed_delays_no_other_lease(pair: list[Desk]):
    one, _ = pair
    jobs(2)
    slow, other = one.claim()
    with desks("renewer") as [renewer]:
        renewer.id = one.id
        with one.open().transaction():
            one.settle(succeeded(slow))
            assert {slow.lease: False, other.lease: True} == renewed(
                renewer, slow.lease, other.lease
            )
        assert {other.lease: True} == renewed(renewer, slow.lease, other.lease)


def test_renew_and_settle_in_opposite_orders_do_not_deadlock(pair: list[Desk]):
    """Each holds one row that the other wants; with a wait in it one would be ended."""
    one, _ = pair
    jobs(2)
    first, second = one.claim()
    with desks("renewer") as [renewer]:
        renewer.id = one.id
        with renewer.open().transaction(), one.open().transaction():
            assert renewed(renewer, second.lease)[second.lease]
            assert ["busy", "settled"] == [
                each.answer.value
                for each in sorted(
                    one.settle(succeeded(second), succeeded(first)), key=lambda each: -each.lease
                )
            ]
            assert {first.lease: False, second.lease: True} == renewed(
                renewer, first.lease, second.lease
            )


def test_a_renewal_clears_the_mark_of_a_grace(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    lapse(job.lease)
    silence(one, two)
    two.beat()
    assert Lease.objects.get(pk=job.lease).graced
    renewed(one, job.lease)
    assert not Lease.objects.get(pk=job.lease).graced


def test_the_first_beat_after_a_silence_of_all_graces_what_lapsed_once(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    lapse(job.lease)
    two.beat()
    assert Lease.objects.lapsed().exists(), "one of the workers had been heard: no grace"
    silence(one, two)
    two.beat()
    assert not Lease.objects.lapsed().exists()
    lapse(job.lease)
    silence(one, two)
    two.beat()
    assert Lease.objects.lapsed().exists(), "a second grace would keep a lost job for ever"


def test_a_worker_says_how_long_its_leases_last(pair: list[Desk]):
    one, two = pair
    assert LEASE == Worker.objects.get(pk=two.id).lease_seconds
    one.beat(lease=6.0)
    Worker.objects.filter(pk=two.id).delete()
    two.beat(lease=7.5)
    leases = dict(Worker.objects.values_list("pk", "lease_seconds"))
    assert {one.id: 6.0, two.id: 7.5} == leases


def test_a_beat_waits_for_no_lease(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    lapse(job.lease)
    silence(one, two)
    with one.open().transaction():
        one.open().execute("SELECT FROM django_jobs_lease WHERE id = %s FOR UPDATE", [job.lease])
        two.beat()
    assert Lease.objects.lapsed().exists()


def test_a_beat_makes_the_row_again_and_leaves_epoch_and_idle_to_the_loop(pair: list[Desk]):
    one, _ = pair
    assert 2 == raise_epoch(worker=one.id, database=one.database)
    Worker.objects.filter(pk=one.id).update(idle=True)
    assert 2 == one.beat(epoch=1, idle=False, state="draining")
    row = Worker.objects.get(pk=one.id)
    assert (2, True, "draining") == (row.epoch, row.idle, row.state)
    forget(one)
    assert 1 == one.beat(epoch=1)


def test_nobody_but_a_worker_itself_writes_its_heartbeat(pair: list[Desk]):
    """So nothing can put a stale judgement over a fresh sign of life."""
    one, two = pair
    jobs()
    [job] = one.claim()
    silence(one)
    lapse(job.lease)
    before = Worker.objects.values_list().get(pk=one.id)
    assert 1 == len(rescue(quiet=QUIET, database=two.database))
    two.beat()
    assert before == Worker.objects.values_list().get(pk=one.id)


def test_a_claim_that_carries_an_old_epoch_takes_nothing(pair: list[Desk]):
    one, _ = pair
    jobs(2)
    assert 2 == raise_epoch(worker=one.id, database=one.database)
    assert [] == one.claim(epoch=1)
    assert 2 == len(one.claim(epoch=2))


def test_a_worker_without_a_row_claims_nothing_and_has_no_epoch_to_raise(pair: list[Desk]):
    one, _ = pair
    jobs()
    forget(one)
    assert [] == one.claim()
    assert raise_epoch(worker=one.id, database=one.database) is None


def test_held_leases_are_those_of_this_worker(pair: list[Desk]):
    one, two = pair
    jobs(2)
    [mine] = one.claim(room=1)
    [theirs] = two.claim(room=1)
    assert {mine.lease: mine.id} == held_leases(worker=one.id, database=one.database)
    assert {theirs.lease: theirs.id} == held_leases(worker=two.id, database=two.database)
