"""Requeue: final jobs get a new life, live ones are refused by name, once each."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.models import Activity, Event, Job
from django_jobs.operations import act
from django_jobs.operations.act import Actor
from django_jobs.operations.requeue import Requeued, requeue
from django_jobs.states import FINAL, LIVE
from tests.operations.desk import desks, failed, job_row, jobs, kinds, succeeded
from tests.operations.ended import ANA, ended, live, paused_at_the_gate

pytestmark = pytest.mark.django_db(transaction=True)


def again(*ids: int, actor: Actor = ANA, reason: str = "SMTP is back") -> Requeued:
    return requeue(ids, actor=actor, reason=reason, database="default")


@pytest.mark.parametrize("state", sorted(FINAL))
def test_every_final_state_leads_to_a_new_life(state: str) -> None:
    [pk] = ended(1, state)
    assert Requeued(1, {}) == again(pk)
    job = job_row(pk)
    assert ("ready", 2, 0, []) == (job.state, job.life, job.attempt, job.worker_ids)
    assert (None, None, None) == (job.started_at, job.last_attempted_at, job.finished_at)
    assert (None, None, None) == (job.result, job.error, job.fingerprint)
    assert not job.suspect


def test_the_time_to_run_is_now_and_the_settled_lease_is_kept() -> None:
    [pk] = ended(1, "expired", run_after="2030-01-01T00:00Z", result="x", settled_lease=41)
    again(pk)
    assert (None, 41) == (job_row(pk).run_after, job_row(pk).settled_lease)


def test_what_the_job_was_enqueued_with_is_kept() -> None:
    columns: dict[str, Any] = {"args": [1], "kwargs": {"a": 2}, "queue": "mail"}
    columns |= {"priority": 5, "max_attempts": 9, "metadata": {"m": 1}}
    [pk] = ended(**columns)
    before = job_row(pk)
    again(pk)
    after = job_row(pk)
    assert columns == {name: getattr(after, name) for name in columns}
    assert before.enqueued_at == after.enqueued_at


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_is_refused_by_its_state(state: str) -> None:
    pk = live(state)
    before = Job.objects.filter(pk=pk).values().get()
    assert Requeued(0, {pk: state}) == again(pk)
    assert before == Job.objects.filter(pk=pk).values().get()


def test_what_is_not_there_is_not_found() -> None:
    [pk] = ended()
    ids = [pk, 10**12, 0, -3, 2**63, 10**40]
    assert Requeued(1, dict.fromkeys(ids[1:], "not found")) == again(*ids)


@pytest.mark.django_db  # rolled back, with the constraint
def test_an_unknown_state_is_refused_by_its_name() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_jobs_job DROP CONSTRAINT django_jobs_job_known_state")
    pk = live("zzz")
    assert Requeued(0, {pk: "zzz"}) == again(pk)


def test_a_job_has_no_more_lives_than_its_column_counts() -> None:
    [pk] = ended(life=32767)
    assert Requeued(0, {pk: "too many lives"}) == again(pk)


def test_mixed_jobs_are_judged_one_by_one() -> None:
    dead, done, running, ready = *ended(), *ended(1, "succeeded"), live("running"), live("ready")
    answer = again(dead, done, running, ready, dead)
    assert Requeued(2, {running: "running", ready: "ready"}) == answer


def test_one_activity_tells_who_did_what_and_why() -> None:
    dead = ended(3)
    again(*dead, live("ready"))
    [row] = Activity.objects.values("actor_id", "actor_name", "via", "verb", "count", "reason")
    assert {
        "actor_id": "7", "actor_name": "ana", "via": "admin", "verb": "requeue",
        "count": 3, "reason": "SMTP is back",
    } == row  # fmt: skip
    assert Activity.objects.get().scope.startswith(f"jobs {dead[0]}, {dead[1]}, ")


def test_an_act_that_changes_nothing_leaves_no_record() -> None:
    again(live("ready"), 10**12)
    again()
    assert not Activity.objects.exists()
    assert not Event.objects.exists()


def test_each_job_gets_an_event_that_points_to_the_activity() -> None:
    [pk] = ended()
    again(pk)
    event = Event.objects.get(kind="requeued")
    assert (pk, 0, 2, "ana") == (event.job_id, event.attempt, event.life, event.actor)
    assert Activity.objects.get().pk == event.activity_id
    assert {"from": "dead", "reason": "SMTP is back"} == event.data
    assert ["dead", "requeued"] == kinds(pk)  # the history is kept


def test_batches_are_transactions_of_their_own_under_one_activity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(act, "BATCH", 2)
    refused = live("ready")
    dead = ended(5)
    with connection.cursor() as cursor:
        assert Requeued(5, {refused: "ready"}) == again(refused, *dead)
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM django_jobs_job WHERE life = 2")
        assert 3 == cursor.fetchone()[0]
    assert [5] == list(Activity.objects.values_list("count", flat=True))
    assert 1 == Event.objects.filter(kind="requeued").values("activity_id").distinct().count()


def test_a_batch_without_a_change_does_not_begin_a_second_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(act, "BATCH", 1)
    again(*ended(), live("ready"), *ended())
    assert [2] == list(Activity.objects.values_list("count", flat=True))


def test_a_callers_rollback_takes_all_of_it_back() -> None:
    [pk] = ended()
    with transaction.atomic():
        again(pk)
        transaction.set_rollback(True)
    assert ("dead", 1) == (job_row(pk).state, job_row(pk).life)
    assert not Activity.objects.exists()


def test_a_row_that_another_transaction_holds_is_left_and_named(
    second_connection: BaseDatabaseWrapper,
) -> None:
    held, free = ended(2)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_jobs_job WHERE id = %s FOR UPDATE", [held])
        with second_connection.cursor() as other:
            other.execute("SELECT 1")
            result = _over(second_connection, held, free)
    assert Requeued(1, {held: "locked"}) == result
    assert ("dead", "ready") == (job_row(held).state, job_row(free).state)


def _over(wrapper: BaseDatabaseWrapper, *ids: int) -> Requeued:
    """Requeue over another session than the test's own."""
    from django.db import connections

    mine = connections["default"]
    connections["default"] = wrapper
    try:
        return again(*ids)
    finally:
        connections["default"] = mine


def test_of_two_operators_each_job_obeys_one(monkeypatch: pytest.MonkeyPatch) -> None:
    [pk] = ended()
    with paused_at_the_gate("requeue", lambda: again(pk), monkeypatch) as late:
        assert Requeued(1, {}) == again(pk)  # the other looked, and saw it dead
    assert Requeued(0, {pk: "locked"}) == late.result(timeout=5)
    assert 2 == job_row(pk).life
    assert ["dead", "requeued"] == kinds(pk)
    assert [1] == list(Activity.objects.values_list("count", flat=True))


def test_a_job_that_died_again_between_look_and_lock_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = ended()
    with paused_at_the_gate("requeue", lambda: again(pk), monkeypatch) as late:
        again(pk)
        Job.objects.filter(pk=pk).update(state="dead", finished_at="2026-01-01T00:00Z")
    assert Requeued(0, {pk: "locked"}) == late.result(timeout=5)
    assert ("dead", 2) == (job_row(pk).state, job_row(pk).life)


def test_a_harmless_change_between_look_and_lock_hinders_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = ended()
    with paused_at_the_gate("requeue", lambda: again(pk), monkeypatch) as late:
        Job.objects.filter(pk=pk).update(priority=9)
    assert Requeued(1, {}) == late.result(timeout=5)
    assert ("ready", 2, 9) == (job_row(pk).state, job_row(pk).life, job_row(pk).priority)


def test_the_new_life_is_claimed_and_the_old_outcome_is_void() -> None:
    with desks("old", "new") as [old, new]:
        [pk] = jobs()
        [first] = old.claim()
        old.settle(succeeded(first))
        again(pk)
        [second] = new.claim()
        assert (pk, 1, 2, [str(new.id)]) == (
            second.id, second.attempt, second.life, second.worker_ids,
        )  # fmt: skip
        [answer] = old.settle(failed(first))  # its own commit's answer was lost
        assert "repeated" == answer.answer
        assert ("running", 2) == (job_row(pk).state, job_row(pk).life)
        [answer] = new.settle(succeeded(second))
        assert "settled" == answer.answer


def test_a_sleeping_worker_is_rung_after_the_commit(
    second_connection: BaseDatabaseWrapper,
) -> None:
    dead = ended(2, queue="mail") + ended(1, queue="imports")
    with desks("sleeper") as [sleeper]:
        sleeper.beat()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_worker SET idle = true")
        with second_connection.cursor() as cursor:
            cursor.execute("LISTEN django_jobs")
            with transaction.atomic():
                again(*dead)
                assert [] == list(second_connection.connection.notifies(timeout=0.05))
            rung = second_connection.connection.notifies(timeout=5, stop_after=2)
            assert {"mail default", "imports default"} == {bell.payload for bell in rung}


def test_hostile_words_are_stored_as_text() -> None:
    [pk] = ended()
    again(pk, actor=Actor(name="a\0\ud800<b>", via="cli"), reason="x\0'\"; DROP TABLE \ud800")
    activity = Activity.objects.get()
    assert ("a\\x00\\ud800<b>", None) == (activity.actor_name, activity.actor_id)
    assert "x\\x00'\"; DROP TABLE \\ud800" == activity.reason
    assert activity.reason == Event.objects.get(kind="requeued").data["reason"]


def test_the_scope_is_in_words() -> None:
    again(*ended(1))
    again(*ended(12))
    few, many = Activity.objects.order_by("id").values_list("scope", flat=True)
    assert few.startswith("job ")
    assert many.startswith("12 jobs from ")


def test_a_thousand_jobs_cost_one_statement(django_assert_num_queries) -> None:
    dead = ended(1000)
    with django_assert_num_queries(2):  # the other looks whether somebody sleeps
        assert 1000 == again(*dead).count
