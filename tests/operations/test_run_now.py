"""Run now: scheduled jobs are ready at once, others are refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now

from django_jobs.models import Activity, Event, Job
from django_jobs.operations import act
from django_jobs.operations.promote import promote
from django_jobs.operations.run_now import RunNow, run_now
from django_jobs.states import JobState
from tests.aliases import database_time
from tests.operations.desk import desks, failed, job_row, jobs, kinds
from tests.operations.ended import ANA, ended, live, paused_at_the_gate

pytestmark = pytest.mark.django_db(transaction=True)

FAR = datetime(2040, 1, 2, 3, 4, 5, tzinfo=UTC)


def at_once(*ids: int, reason: str = "the customer waits") -> RunNow:
    return run_now(ids, actor=ANA, reason=reason, database="default")


def scheduled(count: int = 1, **columns: Any) -> list[int]:
    return jobs(count, **{"state": "scheduled", "run_after": FAR, **columns})


def test_a_scheduled_job_is_claimed_before_its_time() -> None:
    [pk] = scheduled()
    with desks("one") as [one]:
        assert [] == one.claim()
        assert RunNow(1, {}) == at_once(pk)
        assert [pk] == [job.id for job in one.claim()]


def test_its_attempts_and_its_life_go_on() -> None:
    columns: dict[str, Any] = {"attempt": 2, "life": 3, "worker_ids": ["w1", "w2"]}
    columns |= {"error": "boom", "fingerprint": "0123456789abcdef", "suspect": True}
    columns |= {"priority": 5, "max_attempts": 9, "placement": 4, "settled_lease": 41}
    [pk] = scheduled(**columns)
    at_once(pk)
    job = job_row(pk)
    assert columns == {name: getattr(job, name) for name in columns}
    assert ("ready", None) == (job.state, job.finished_at)


def test_it_waits_since_then_and_not_since_a_time_to_come() -> None:
    [pk] = scheduled()
    before = database_time()
    at_once(pk)
    due = job_row(pk).run_after
    assert due is not None
    assert before <= due <= database_time()


def test_a_job_whose_time_has_come_keeps_that_time() -> None:
    due = datetime(2020, 1, 1, tzinfo=UTC)
    [pk] = scheduled(run_after=due)
    at_once(pk)
    assert due == job_row(pk).run_after


@pytest.mark.parametrize("state", sorted(set(JobState) - {"scheduled"}))
def test_a_job_that_is_not_scheduled_is_refused_by_its_state(state: str) -> None:
    [pk] = (
        ended(1, state)
        if state in {"dead", "dropped", "cancelled", "expired", "succeeded"}
        else [live(state)]
    )
    before = Job.objects.filter(pk=pk).values().get()
    assert RunNow(0, {pk: state}) == at_once(pk)
    assert before == Job.objects.filter(pk=pk).values().get()


@pytest.mark.parametrize("pk", [0, -1, 10**12, 2**63, 10**30])
def test_a_job_that_is_not_there_is_refused(pk: int) -> None:
    assert RunNow(0, {pk: "not found"}) == at_once(pk)


def test_a_mixed_choice_changes_what_it_may() -> None:
    [one, two], ready = scheduled(2), live("ready")
    assert RunNow(2, {ready: "ready"}) == at_once(one, ready, two, one)


def test_an_event_tells_when_it_was_due_and_points_to_the_activity() -> None:
    [pk] = scheduled(attempt=2, life=3)
    at_once(pk)
    event = Event.objects.get(kind="run_now")
    assert (pk, 2, 3, "ana") == (event.job_id, event.attempt, event.life, event.actor)
    assert {"due", "reason"} == set(event.data)
    assert FAR == datetime.fromisoformat(event.data["due"])
    assert "the customer waits" == event.data["reason"]
    assert Activity.objects.get().pk == event.activity_id


def test_one_activity_tells_who_did_what_and_why() -> None:
    at_once(*scheduled(3), live("ready"))
    [row] = Activity.objects.values("actor_id", "actor_name", "via", "verb", "count", "reason")
    assert {
        "actor_id": "7", "actor_name": "ana", "via": "admin", "verb": "run_now",
        "count": 3, "reason": "the customer waits",
    } == row  # fmt: skip


def test_an_act_that_changes_nothing_leaves_no_record() -> None:
    at_once(live("ready"), 10**12)
    at_once()
    assert not Activity.objects.exists()
    assert not Event.objects.exists()


def test_batches_are_under_one_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "BATCH", 2)
    assert RunNow(5, {}) == at_once(*scheduled(5))
    assert [5] == list(Activity.objects.values_list("count", flat=True))
    told = Event.objects.filter(kind="run_now", activity_id=Activity.objects.get().pk)
    assert 5 == told.count()


def test_a_callers_rollback_takes_all_of_it_back() -> None:
    [pk] = scheduled()
    with transaction.atomic():
        at_once(pk)
        transaction.set_rollback(True)
    assert ("scheduled", FAR) == (job_row(pk).state, job_row(pk).run_after)
    assert not Activity.objects.exists()


def test_a_row_that_another_transaction_holds_is_left_and_named(
    second_connection: BaseDatabaseWrapper,
) -> None:
    held, free = scheduled(2)
    second_connection.set_autocommit(False)
    with second_connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_jobs_job WHERE id = %s FOR UPDATE", [held])
        assert RunNow(1, {held: "locked"}) == at_once(held, free)
    second_connection.rollback()
    assert ("scheduled", "ready") == (job_row(held).state, job_row(free).state)


def test_of_two_operators_each_job_obeys_one(monkeypatch: pytest.MonkeyPatch) -> None:
    [pk] = scheduled()
    with paused_at_the_gate("run_now", lambda: at_once(pk), monkeypatch) as late:
        assert RunNow(1, {}) == at_once(pk)  # the other looked, and saw it scheduled
    assert RunNow(0, {pk: "locked"}) == late.result(timeout=5)
    assert ["run_now"] == kinds(pk)
    assert [1] == list(Activity.objects.values_list("count", flat=True))


def test_a_job_that_was_promoted_between_look_and_lock_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = scheduled(run_after=datetime(2020, 1, 1, tzinfo=UTC))
    with (
        desks("sweeper") as [sweeper],
        paused_at_the_gate("run_now", lambda: at_once(pk), monkeypatch) as late,
    ):
        assert 1 == promote(worker=sweeper.id, database=sweeper.database)
    assert RunNow(0, {pk: "locked"}) == late.result(timeout=5)
    assert not Activity.objects.exists()


def test_a_job_that_was_put_off_again_between_look_and_lock_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = scheduled()
    with (
        desks("one") as [one],
        paused_at_the_gate("run_now", lambda: at_once(pk), monkeypatch) as late,
    ):
        at_once(pk)
        [job] = one.claim()
        one.settle(failed(job))  # another wait, which nobody has judged yet
    assert RunNow(0, {pk: "locked"}) == late.result(timeout=5)
    assert "scheduled" == job_row(pk).state


def test_a_harmless_change_between_look_and_lock_hinders_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = scheduled()
    with paused_at_the_gate("run_now", lambda: at_once(pk), monkeypatch) as late:
        Job.objects.filter(pk=pk).update(priority=9)
    assert RunNow(1, {}) == late.result(timeout=5)
    assert ("ready", 9) == (job_row(pk).state, job_row(pk).priority)


def test_a_sleeping_worker_is_rung_after_the_commit(
    second_connection: BaseDatabaseWrapper,
) -> None:
    waiting = scheduled(2, queue="mail") + scheduled(1, queue="imports")
    with desks("sleeper") as [sleeper]:
        sleeper.beat()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_worker SET idle = true")
        with second_connection.cursor() as cursor:
            cursor.execute("LISTEN django_jobs")
            with transaction.atomic():
                at_once(*waiting)
                assert [] == list(second_connection.connection.notifies(timeout=0.05))
            rung = second_connection.connection.notifies(timeout=5, stop_after=2)
            assert {"mail default", "imports default"} == {bell.payload for bell in rung}


def test_hostile_words_are_stored_as_text() -> None:
    [pk] = scheduled()
    at_once(pk, reason="x\0'\"; DROP TABLE \ud800")
    assert "x\\x00'\"; DROP TABLE \\ud800" == Activity.objects.get().reason
    assert Activity.objects.get().reason == Event.objects.get(kind="run_now").data["reason"]


def test_a_time_that_python_cannot_hold_does_not_stop_the_act() -> None:
    [pk] = scheduled()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET run_after = 'infinity'")
    assert RunNow(1, {}) == at_once(pk)
    assert "infinity" == Event.objects.get(kind="run_now").data["due"]


def test_a_thousand_jobs_cost_one_statement(django_assert_num_queries) -> None:
    waiting = scheduled(1000)
    Job.objects.filter(pk__in=waiting).update(run_after=Now() + timedelta(hours=1))
    with django_assert_num_queries(2):  # the other looks whether somebody sleeps
        assert 1000 == at_once(*waiting).count
