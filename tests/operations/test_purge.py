"""Purge: final jobs go with their events; a live one is never touched."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.models import Activity, Dependency, Event, Job, Lease
from django_jobs.operations.purge import Purged, purge
from django_jobs.operations.requeue import requeue
from django_jobs.states import FINAL, LIVE
from tests.operations.desk import desks, job_row, jobs, kinds, succeeded
from tests.operations.ended import ANA, ended, live, paused_at_the_gate

pytestmark = pytest.mark.django_db(transaction=True)


def away(*ids: int) -> Purged:
    return purge(ids, actor=ANA, reason="old", database="default")


def back(*ids: int) -> None:
    assert len(ids) == requeue(ids, actor=ANA, database="default").count


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_job_goes_with_its_events(state: str) -> None:
    doomed, kept = ended(2, state)
    assert Purged(1, {}) == away(doomed)
    assert [kept] == list(Job.objects.values_list("pk", flat=True))
    assert [kept] == list(Event.objects.values_list("job_id", flat=True))


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_is_refused_by_its_state(state: str) -> None:
    pk = live(state)
    assert Purged(0, {pk: state}) == away(pk)
    assert state == job_row(pk).state
    assert not Activity.objects.exists()


def test_the_ties_of_a_job_go_with_it_on_both_sides() -> None:
    parent, pk, child = ended(3, "succeeded")
    for one, other in ((parent, pk), (pk, child)):
        Dependency.objects.create(parent=one, child=other)
    assert Purged(1, {}) == away(pk)
    assert not Dependency.objects.exists()


def test_mixed_jobs_are_judged_one_by_one() -> None:
    dead, running = *ended(), live("running")
    assert Purged(1, {running: "running", 10**12: "not found"}) == away(dead, running, 10**12)


def test_one_activity_tells_who_did_what_and_why() -> None:
    away(*ended(2))
    activity = Activity.objects.get()
    assert ("ana", "admin", "purge", 2, "old") == (
        activity.actor_name, activity.via, activity.verb, activity.count, activity.reason,
    )  # fmt: skip


def test_a_callers_rollback_brings_all_of_it_back() -> None:
    [pk] = ended()
    with transaction.atomic():
        away(pk)
        transaction.set_rollback(True)
    assert ["dead"] == kinds(pk)
    assert "dead" == job_row(pk).state
    assert not Activity.objects.exists()


def test_a_row_that_another_transaction_holds_is_left_and_named(
    second_connection: BaseDatabaseWrapper,
) -> None:
    held, free = ended(2)
    second_connection.set_autocommit(False)
    with second_connection.cursor() as other:  # even the weakest lock: a child being enqueued
        other.execute("SELECT 1 FROM django_jobs_job WHERE id = %s FOR KEY SHARE", [held])
        assert Purged(1, {held: "locked"}) == away(held, free)
    second_connection.rollback()
    assert [held] == list(Job.objects.values_list("pk", flat=True))


def test_a_job_that_became_live_before_the_lock_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = ended()
    with paused_at_the_gate("purge_lock", lambda: away(pk), monkeypatch) as late:
        back(pk)  # the purge has found it dead
    assert Purged(0, {pk: "ready"}) == late.result(timeout=5)
    assert ("ready", 2) == (job_row(pk).state, job_row(pk).life)
    assert ["dead", "requeued"] == kinds(pk)


def test_a_job_that_runs_again_before_the_lock_keeps_its_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = ended()
    with desks("worker") as [worker]:
        with paused_at_the_gate("purge_lock", lambda: away(pk), monkeypatch) as late:
            back(pk)
            [claimed] = worker.claim()
        assert Purged(0, {pk: "running"}) == late.result(timeout=5)
        assert [pk] == list(Lease.objects.values_list("job_id", flat=True))
        [answer] = worker.settle(succeeded(claimed))
    assert "settled" == answer.answer


def test_no_event_outlives_its_job_that_ended_again_before_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = ended()
    with paused_at_the_gate("purge_lock", lambda: away(pk), monkeypatch) as late:
        back(pk)
        Job.objects.filter(pk=pk).update(state="dead", finished_at="2026-01-01T00:00Z")
        Event.objects.create(job_id=pk, kind="dead", attempt=3, life=2)
    assert Purged(1, {}) == late.result(timeout=5)
    assert [] == kinds(pk)


def test_a_harmless_change_before_the_lock_hinders_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = ended()
    with paused_at_the_gate("purge_lock", lambda: away(pk), monkeypatch) as late:
        Job.objects.filter(pk=pk).update(priority=9)
    assert Purged(1, {}) == late.result(timeout=5)
    assert not Event.objects.exists()


def test_a_running_job_ends_as_it_would_after_a_refused_purge() -> None:
    with desks("worker") as [worker]:
        [pk] = jobs()
        [claimed] = worker.claim()
        assert Purged(0, {pk: "running"}) == away(pk)
        [answer] = worker.settle(succeeded(claimed))
        assert "settled" == answer.answer
        assert "succeeded" == job_row(pk).state
