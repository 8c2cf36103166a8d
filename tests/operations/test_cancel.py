"""Cancel: what nobody runs ends at once, who runs a job is asked, others are refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.compat import TaskResultStatus, task_finished
from django_jobs.models import Activity, Dependency, Event, Job, Lease
from django_jobs.operations import act
from django_jobs.operations.cancel import Cancelled, cancel
from django_jobs.operations.claim import Claimed
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.promote import promote
from django_jobs.operations.renew import Renewal, renew
from django_jobs.operations.requeue import requeue
from django_jobs.operations.rescue import rescue
from django_jobs.operations.results import results
from django_jobs.operations.settle import Outcome
from django_jobs.states import FINAL, LIVE
from tests.operations.desk import (
    LEASE,
    QUIET,
    Desk,
    desks,
    failed,
    job_row,
    jobs,
    kinds,
    lapse,
    succeeded,
)
from tests.operations.ended import ANA, ended, live, paused_at_the_gate

pytestmark = pytest.mark.django_db(transaction=True)

STORY = json.dumps({"reason": "retry", "error": "boom", "class": "ValueError", "traceback": "…"})


@pytest.fixture
def one() -> Iterator[Desk]:
    with desks("one") as [desk]:
        yield desk


def stop(*ids: int, reason: str = "sent twice") -> Cancelled:
    return cancel(ids, actor=ANA, reason=reason, database="default")


def claimed(desk: Desk, **columns: Any) -> Claimed:
    jobs(**columns)
    [job] = desk.claim()
    return job


def asked(pk: int) -> bool:
    return job_row(pk).cancel_asked_at is not None


# what nobody runs


@pytest.mark.parametrize("state", sorted(LIVE - {"running"}))
def test_a_live_job_that_nobody_runs_is_cancelled_at_once(state: str) -> None:
    pk = live(state)
    assert Cancelled(1, 0, {}) == stop(pk)
    job = job_row(pk)
    assert ("cancelled", True, None) == (job.state, bool(job.finished_at), job.cancel_asked_at)


def test_a_cancelled_job_is_not_claimed_and_not_promoted(one: Desk) -> None:
    stop(*jobs(2), *jobs(state="scheduled", run_after="2020-01-01T00:00:00Z"))
    assert 0 == promote(worker=one.id, database=one.database)
    assert [] == one.claim()


def test_its_unique_key_is_free_again() -> None:
    [pk] = jobs(unique_key="invoice:1")
    stop(pk)
    jobs(unique_key="invoice:1")


def test_attempts_and_life_and_the_latest_error_stay() -> None:
    columns: dict[str, Any] = {"attempt": 2, "life": 3, "worker_ids": ["w1", "w2"]}
    columns |= {"error": "boom", "fingerprint": "0123456789abcdef", "priority": 5}
    [pk] = jobs(state="scheduled", run_after="2040-01-01T00:00:00Z", **columns)
    stop(pk)
    job = job_row(pk)
    assert columns == {name: getattr(job, name) for name in columns}


def test_django_says_that_it_has_failed() -> None:
    [pk] = jobs()
    stop(pk)
    result = results([pk], backend="default", database="default")[pk]
    assert (TaskResultStatus.FAILED, []) == (result.status, result.errors)


# what somebody runs


def test_a_running_job_is_asked_and_keeps_its_lease(one: Desk) -> None:
    job = claimed(one)
    assert Cancelled(0, 1, {}) == stop(job.id)
    assert ("running", True) == (job_row(job.id).state, asked(job.id))
    assert Lease.objects.filter(pk=job.lease).exists()


def test_asking_twice_is_once(one: Desk) -> None:
    job = claimed(one)
    stop(job.id)
    before = job_row(job.id).cancel_asked_at
    assert Cancelled(0, 1, {}) == stop(job.id)
    assert before == job_row(job.id).cancel_asked_at
    assert ["cancel_asked"] == kinds(job.id)
    assert [1] == list(Activity.objects.values_list("count", flat=True))


def test_the_renewal_tells_whose_run_shall_end(one: Desk) -> None:
    jobs(2)
    first, second = one.claim()
    stop(first.id)
    found = renew(
        [first.lease, second.lease], worker=one.id, lease_seconds=LEASE, database=one.database
    )
    assert {
        first.lease: Renewal(renewed=True, asked=True),
        second.lease: Renewal(renewed=True, asked=False),
    } == found


def test_the_renewal_tells_it_of_a_lease_that_is_busy_too(
    one: Desk, second_connection: BaseDatabaseWrapper
) -> None:
    job = claimed(one)
    stop(job.id)
    second_connection.set_autocommit(False)
    with second_connection.cursor() as cursor:
        cursor.execute("SELECT FROM django_jobs_lease WHERE id = %s FOR UPDATE", [job.lease])
        found = renew([job.lease], worker=one.id, lease_seconds=LEASE, database=one.database)
    second_connection.rollback()
    assert {job.lease: Renewal(renewed=False, asked=True)} == found


def test_the_workers_of_the_asked_are_rung_and_no_other(
    second_connection: BaseDatabaseWrapper,
) -> None:
    with desks("one", "two", "three") as [one, two, three]:
        again = {"attempt": 1, "worker_ids": [str(three.id)]}
        asked_for = [claimed(one), claimed(two, **again), claimed(two)]
        claimed(three)
        with second_connection.cursor() as cursor:
            cursor.execute("LISTEN django_jobs")
            with transaction.atomic():
                stop(*[job.id for job in asked_for], *jobs())
                assert [] == list(second_connection.connection.notifies(timeout=0.05))
            rung = list(second_connection.connection.notifies(timeout=1, stop_after=2))
            rung += second_connection.connection.notifies(timeout=0.05)
    assert sorted([str(one.id), str(two.id)]) == sorted(bell.payload for bell in rung)


# it wins over another attempt


def hand_back(desk: Desk, job: Claimed) -> None:
    desk.settle(handed_back(lease=job.lease, job=job.id, reason="drain"))


def retry(desk: Desk, job: Claimed) -> None:
    desk.settle(failed(job))


def retry_at_once(desk: Desk, job: Claimed) -> None:
    outcome = Outcome(lease=job.lease, job=job.id, state="ready", kind="failed", data=STORY)
    desk.settle(outcome)


def rescue_it(desk: Desk, job: Claimed) -> None:
    lapse(job.lease)
    desk.beat()
    rescue(quiet=QUIET, database=desk.database)


@pytest.mark.parametrize("course", [hand_back, retry, retry_at_once, rescue_it])
def test_it_wins_over_another_attempt(one: Desk, course: Callable[[Desk, Claimed], None]) -> None:
    job = claimed(one, max_attempts=5)
    stop(job.id)
    course(one, job)
    row = job_row(job.id)
    assert ("cancelled", True, None) == (row.state, bool(row.finished_at), row.cancel_asked_at)
    assert ["cancel_asked", "cancelled"] == kinds(job.id)
    assert not Lease.objects.exists()


@pytest.mark.parametrize("course", [hand_back, retry, retry_at_once, rescue_it])
def test_without_it_another_attempt_follows(
    one: Desk, course: Callable[[Desk, Claimed], None]
) -> None:
    job = claimed(one, max_attempts=5)
    course(one, job)
    assert job_row(job.id).state in ("ready", "scheduled")


def test_a_rescue_of_the_last_attempt_is_a_cancel_too(one: Desk) -> None:
    job = claimed(one, max_attempts=1)
    stop(job.id)
    rescue_it(one, job)
    assert "cancelled" == job_row(job.id).state


def test_a_run_that_succeeds_all_the_same_has_succeeded(one: Desk) -> None:
    job = claimed(one)
    stop(job.id)
    one.settle(succeeded(job))
    assert ("succeeded", None) == (job_row(job.id).state, job_row(job.id).cancel_asked_at)


def test_a_run_that_fails_for_good_is_dead(one: Desk) -> None:
    job = claimed(one)
    stop(job.id)
    one.settle(Outcome(lease=job.lease, job=job.id, state="dead", kind="dead"))
    assert ("dead", None) == (job_row(job.id).state, job_row(job.id).cancel_asked_at)


def test_an_attempt_that_failed_on_the_way_is_among_the_errors(one: Desk) -> None:
    job = claimed(one, max_attempts=5)
    stop(job.id)
    retry_at_once(one, job)
    [error] = results([job.id], backend="default", database="default")[job.id].errors
    assert "ValueError" == error.exception_class_path


def test_a_requeue_forgets_that_it_was_asked(one: Desk) -> None:
    [pk] = ended(1, "cancelled", cancel_asked_at="2020-01-01T00:00:00Z")
    requeue([pk], actor=ANA, database="default")
    [job] = one.claim()
    retry(one, job)
    assert ("scheduled", False) == (job_row(pk).state, asked(pk))


def test_who_waited_for_it_is_cancelled_or_freed_after_the_commit() -> None:
    [parent], [child, heir] = jobs(), jobs(2, state="waiting")
    Job.objects.filter(pk=heir).update(after_failure=True)
    Dependency.objects.bulk_create(Dependency(parent=parent, child=pk) for pk in (child, heir))
    with transaction.atomic():
        stop(parent)
        assert "waiting" == job_row(child).state
    assert ("cancelled", "ready") == (job_row(child).state, job_row(heir).state)


def test_who_waits_for_a_run_that_is_asked_waits_on(one: Desk) -> None:
    parent, [child] = claimed(one).id, jobs(state="waiting")
    Dependency.objects.create(parent=parent, child=child)
    stop(parent)
    assert "waiting" == job_row(child).state


# refusals, races, records


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_job_that_has_ended_is_refused_by_its_state(state: str) -> None:
    [pk] = ended(1, state)
    before = Job.objects.filter(pk=pk).values().get()
    assert Cancelled(0, 0, {pk: state}) == stop(pk)
    assert before == Job.objects.filter(pk=pk).values().get()


@pytest.mark.parametrize("pk", [0, -1, 10**12, 2**63, 10**30])
def test_a_job_that_is_not_there_is_refused(pk: int) -> None:
    assert Cancelled(0, 0, {pk: "not found"}) == stop(pk)


def test_a_mixed_choice_is_told_apart(one: Desk) -> None:
    running, [ready, other], [dead] = claimed(one).id, jobs(2), ended()
    assert Cancelled(2, 1, {dead: "dead"}) == stop(dead, other, running, ready, ready)


def test_a_row_that_another_transaction_holds_is_left_and_named(
    second_connection: BaseDatabaseWrapper,
) -> None:
    held, free = jobs(2)
    second_connection.set_autocommit(False)
    with second_connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_jobs_job WHERE id = %s FOR UPDATE", [held])
        assert Cancelled(1, 0, {held: "locked"}) == stop(held, free)
    second_connection.rollback()
    assert ("ready", "cancelled") == (job_row(held).state, job_row(free).state)


def test_of_two_operators_each_job_obeys_one(monkeypatch: pytest.MonkeyPatch) -> None:
    [pk] = jobs()
    with paused_at_the_gate("cancel", lambda: stop(pk), monkeypatch) as late:
        assert Cancelled(1, 0, {}) == stop(pk)
    assert Cancelled(0, 0, {pk: "locked"}) == late.result(timeout=5)
    assert ["cancelled"] == kinds(pk)


def test_a_job_that_was_claimed_between_look_and_lock_is_asked_through_its_worker(
    one: Desk, monkeypatch: pytest.MonkeyPatch, second_connection: BaseDatabaseWrapper
) -> None:
    [pk] = jobs()
    with second_connection.cursor() as cursor:
        cursor.execute("LISTEN django_jobs")
    with paused_at_the_gate("cancel", lambda: stop(pk), monkeypatch) as late:
        one.claim()
    assert Cancelled(0, 1, {}) == late.result(timeout=5)
    assert ("running", True) == (job_row(pk).state, asked(pk))
    [bell] = second_connection.connection.notifies(timeout=5, stop_after=1)
    assert one.id == UUID(bell.payload)


def test_a_job_that_was_settled_between_look_and_lock_is_left(
    one: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = claimed(one)
    with paused_at_the_gate("cancel", lambda: stop(job.id), monkeypatch) as late:
        one.settle(succeeded(job))
    assert Cancelled(0, 0, {job.id: "locked"}) == late.result(timeout=5)
    assert ("succeeded", False) == (job_row(job.id).state, asked(job.id))


def test_a_life_that_nobody_has_seen_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    [pk] = jobs()
    with paused_at_the_gate("cancel", lambda: stop(pk), monkeypatch) as late:
        stop(pk)
        requeue([pk], actor=ANA, database="default")
    assert Cancelled(0, 0, {pk: "locked"}) == late.result(timeout=5)
    assert "ready" == job_row(pk).state


@pytest.mark.parametrize(("state", "kind"), [("ready", "cancelled"), ("running", "cancel_asked")])
def test_an_event_tells_of_it_and_points_to_the_activity(state: str, kind: str) -> None:
    pk = live(state)
    Job.objects.filter(pk=pk).update(life=3)
    stop(pk)
    event = Event.objects.get(kind=kind)
    assert (pk, 3, "ana") == (event.job_id, event.life, event.actor)
    assert {"from": state, "reason": "sent twice", "by": "operator"} == event.data
    assert Activity.objects.get().pk == event.activity_id


def test_one_activity_tells_who_did_what_and_why() -> None:
    stop(*jobs(2), live("running"), *ended())
    [row] = Activity.objects.values("actor_id", "actor_name", "via", "verb", "count", "reason")
    assert {
        "actor_id": "7", "actor_name": "ana", "via": "admin", "verb": "cancel",
        "count": 3, "reason": "sent twice",
    } == row  # fmt: skip


def test_an_act_that_changes_nothing_leaves_no_record() -> None:
    stop(*ended(), 10**12)
    stop()
    assert not Activity.objects.exists()


def test_batches_are_under_one_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "BATCH", 2)
    assert Cancelled(5, 0, {}) == stop(*jobs(5))
    assert [5] == list(Activity.objects.values_list("count", flat=True))
    told = Event.objects.filter(kind="cancelled", activity_id=Activity.objects.get().pk)
    assert 5 == told.count()


def test_a_callers_rollback_takes_all_of_it_back() -> None:
    pk, running = live("ready"), live("running")
    with transaction.atomic():
        stop(pk, running)
        transaction.set_rollback(True)
    assert ("ready", False) == (job_row(pk).state, asked(running))
    assert not Activity.objects.exists()


def test_hostile_words_are_stored_as_text() -> None:
    [pk] = jobs()
    stop(pk, reason="x\0'\"; DROP TABLE \ud800")
    assert "x\\x00'\"; DROP TABLE \\ud800" == Activity.objects.get().reason
    assert Activity.objects.get().reason == Event.objects.get(kind="cancelled").data["reason"]


# the signal


@contextmanager
def finished() -> Iterator[list[Any]]:
    """Yield the results that task_finished is sent with."""
    told: list[Any] = []

    def receiver(task_result: Any, **_: object) -> None:
        told.append(task_result)

    task_finished.connect(receiver)
    try:
        yield told
    finally:
        task_finished.disconnect(receiver)


def test_the_end_of_what_was_cancelled_at_once_is_announced_after_the_commit() -> None:
    first, second = jobs(2)
    with finished() as told:
        with transaction.atomic():
            stop(first, second, live("running"), *ended())
            assert [] == told
        assert [(first, "cancelled"), (second, "cancelled")] == sorted(
            (int(result.id), result.state) for result in told
        )
        assert {TaskResultStatus.FAILED} == {result.status for result in told}


def test_a_rollback_announces_nothing() -> None:
    with finished() as told:
        with transaction.atomic():
            stop(*jobs())
            transaction.set_rollback(True)
        assert [] == told


def test_a_job_of_an_alias_that_is_not_ours_is_cancelled_without_a_word() -> None:
    with finished() as told:
        assert Cancelled(1, 0, {}) == stop(*jobs(backend="of another site"))
    assert [] == told


def test_a_receiver_that_raises_hinders_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("no")

    task_finished.connect(refuse)
    try:
        with caplog.at_level("CRITICAL"):
            assert Cancelled(2, 0, {}) == stop(*jobs(2))
    finally:
        task_finished.disconnect(refuse)


def test_a_thousand_jobs_cost_one_statement_and_two_that_read_their_results(
    django_assert_num_queries: Callable[..., Any],
) -> None:
    made = jobs(1000)
    with django_assert_num_queries(3):
        assert 1000 == stop(*made).count
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM django_jobs_job WHERE state = 'cancelled'")
        assert [(1000,)] == cursor.fetchall()
