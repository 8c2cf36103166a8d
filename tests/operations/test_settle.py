"""The fence: only a held lease writes an outcome, and only one of them counts."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest
from django.db import connection

from django_jobs.exceptions import UnknownTask
from django_jobs.models import Job, Lease
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.rescue import rescue
from django_jobs.worker.outcomes import unknown
from tests.operations.desk import (
    QUIET,
    Desk,
    answers,
    failed,
    job_row,
    jobs,
    kinds,
    lapse,
    lease_left,
    silence,
    succeeded,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_outcome_of_a_held_lease_is_written_and_the_lease_is_gone(pair: list[Desk]):
    one, _ = pair
    [pk] = jobs()
    [job] = one.claim()
    [answer] = one.settle(succeeded(job, '"A"'))
    row = job_row(pk)
    assert ("settled", row.finished_at) == (answer.answer, answer.finished_at)
    assert ("succeeded", "A", 1, job.lease) == (
        row.state,
        row.result,
        row.attempt,
        row.settled_lease,
    )
    assert not lease_left(job.lease)


@pytest.mark.parametrize("same_worker", [True, False])
def test_the_outcome_of_a_rescued_job_is_refused_on_the_same_host_too(
    pair: list[Desk], *, same_worker: bool
):
    one, two = pair
    second = one if same_worker else two
    [pk] = jobs(backoff="constant", backoff_base=0, backoff_jitter=0)
    [old] = one.claim()
    lapse(old.lease)
    two.beat()
    assert ["scheduled"] == [each.state for each in rescue(quiet=QUIET, database=two.database)]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET state = 'ready', suspect = false")
    [new] = second.claim()
    assert ["lost"] == answers(one.settle(succeeded(old, '"A"')))
    assert "running" == job_row(pk).state
    assert ["settled"] == answers(second.settle(succeeded(new, '"B"')))
    assert ["lost"] == answers(one.settle(succeeded(old, '"A"')))
    assert ("B", 2, ["rescued"]) == (job_row(pk).result, job_row(pk).attempt, kinds(pk))


def test_a_lease_of_another_worker_settles_nothing(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    assert ["lost"] == answers(two.settle(succeeded(job)))
    assert lease_left(job.lease)


def test_an_outcome_that_was_written_before_is_told_as_repeated(pair: list[Desk]):
    one, _ = pair
    [done, retried, mine] = jobs(3)
    first, second, third = one.claim()
    one.settle(succeeded(first), failed(second))
    again = one.settle(succeeded(first), failed(second), succeeded(third))
    assert {
        first.lease: "repeated",
        second.lease: "repeated",
        third.lease: "settled",
    } == {each.lease: each.answer.value for each in again}
    assert job_row(done).finished_at in {each.finished_at for each in again}
    assert (["failed"], "scheduled") == (kinds(retried), job_row(retried).state)
    assert "succeeded" == job_row(mine).state


@pytest.mark.parametrize("table", ["django_jobs_job", "django_jobs_lease"])
def test_a_row_that_another_transaction_holds_is_busy_and_not_waited_for(
    pair: list[Desk], table: str
):
    one, two = pair
    held, free = jobs(2)
    busy, quick = one.claim()
    key = busy.id if table == "django_jobs_job" else busy.lease
    with two.open().transaction():
        two.open().execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE", [key])
        found = one.settle(succeeded(busy), succeeded(quick))
    assert {busy.lease: "busy", quick.lease: "settled"} == {
        each.lease: each.answer.value for each in found
    }
    assert ("running", "succeeded") == (job_row(held).state, job_row(free).state)
    assert ["settled"] == answers(one.settle(succeeded(busy)))


def test_a_claim_that_locks_a_job_which_another_took_makes_its_settle_busy_not_lost(
    pair: list[Desk],
):
    """A claim whose snapshot is older locks the newest version of a running job's row."""
    one, two = pair
    jobs()
    [job] = one.claim()
    with two.open().transaction():
        two.open().execute("SELECT FROM django_jobs_job WHERE id = %s FOR NO KEY UPDATE", [job.id])
        assert ["busy"] == answers(one.settle(succeeded(job)))
    assert ["settled"] == answers(one.settle(succeeded(job)))


def test_an_unknown_task_moves_its_job_which_stays_what_it_was(pair: list[Desk]):
    """A suspect is one for whoever takes it next, and the attempt was none."""
    one, _ = pair
    [pk] = jobs(suspect=True, attempt=1, worker_ids=["before"])
    [job] = one.claim()
    outcome = unknown(job, UnknownTask(job.task, "its module is gone"))
    moved = replace(outcome, state="ready", delay=None, placement=77)
    assert ["settled"] == answers(one.settle(moved))
    row = job_row(pk)
    assert ("ready", 77, True, 1, ["before"]) == (
        row.state,
        row.placement,
        row.suspect,
        row.attempt,
        row.worker_ids,
    )
    assert ["unknown_task"] == kinds(pk)


def test_four_answers_in_one_batch(pair: list[Desk]):
    one, two = pair
    jobs(4)
    repeated, lost, busy, mine = one.claim()
    one.settle(succeeded(repeated))
    lapse(lost.lease)
    two.beat()
    rescue(quiet=QUIET, database=two.database)
    with two.open().transaction():
        two.open().execute("SELECT FROM django_jobs_lease WHERE id = %s FOR UPDATE", [busy.lease])
        found = one.settle(*map(succeeded, (repeated, lost, busy, mine)))
    assert {
        repeated.lease: "repeated",
        lost.lease: "lost",
        busy.lease: "busy",
        mine.lease: "settled",
    } == {each.lease: each.answer.value for each in found}


def test_a_hand_back_returns_the_attempt_and_leaves_no_trace_of_a_start(pair: list[Desk]):
    one, two = pair
    [pk] = jobs()
    [job] = one.claim()
    assert (1, [str(one.id)]) == (job_row(pk).attempt, job_row(pk).worker_ids)
    one.settle(handed_back(lease=job.lease, job=job.id, reason="drain"))
    row = job_row(pk)
    assert ("ready", 0, [], None, None) == (
        row.state,
        row.attempt,
        row.worker_ids,
        row.started_at,
        row.last_attempted_at,
    )
    assert ["handed_back"] == kinds(pk)
    [again] = two.claim()
    assert (1, [str(two.id)]) == (again.attempt, again.worker_ids)


def test_a_hand_back_of_a_retry_keeps_the_first_start_and_the_first_error(pair: list[Desk]):
    one, two = pair
    [pk] = jobs()
    [first] = one.claim()
    one.settle(failed(first, delay=0.0))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET state = 'ready'")
    [second] = two.claim()
    two.settle(handed_back(lease=second.lease, job=second.id, reason="drain"))
    row = job_row(pk)
    assert (1, [str(one.id)], first.started_at, "boom") == (
        row.attempt,
        row.worker_ids,
        row.started_at,
        row.error,
    )


def test_only_a_hand_back_keeps_the_mark_of_a_suspect(pair: list[Desk]):
    one, _ = pair
    marked, cleared = jobs(2, suspect=True)
    [first] = one.claim()
    one.settle(handed_back(lease=first.lease, job=first.id, reason="drain"))
    assert job_row(first.id).suspect
    [again] = one.claim()
    one.settle(failed(again))
    assert not job_row(again.id).suspect
    assert {marked, cleared} >= {first.id, again.id}


def test_an_outcome_that_the_database_refuses_leaves_the_whole_batch_unwritten(pair: list[Desk]):
    """So the loop may send them one by one."""
    one, _ = pair
    jobs(2)
    good, bad = one.claim()
    with pytest.raises(psycopg.errors.CheckViolation):
        one.settle(succeeded(good), replace(succeeded(bad), state="scheduled"))
    assert ["settled", "settled"] == answers(one.settle(succeeded(good), succeeded(bad)))


def test_a_frozen_worker_finds_its_job_settled_by_another_and_writes_nothing(pair: list[Desk]):
    one, two = pair
    [pk] = jobs(max_attempts=1)
    [job] = one.claim()
    silence(one)
    lapse(job.lease)
    two.beat()
    rescue(quiet=QUIET, database=two.database)
    before = job_row(pk)
    assert ["lost"] == answers(one.settle(succeeded(job)))
    after = job_row(pk)
    assert ("dead", before.finished_at) == (after.state, after.finished_at)
    assert ["dead"] == kinds(pk)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM django_jobs_job WHERE id = %s",
        "UPDATE django_jobs_job SET state = 'ready' WHERE id = %s",
        "UPDATE django_jobs_job SET state = 'cancelled', finished_at = now() WHERE id = %s",
    ],
    ids=["deleted", "ready", "cancelled"],
)
def test_the_lease_of_a_job_that_was_changed_by_hand_is_lost_and_gone(
    pair: list[Desk], statement: str
):
    """Busy it would be in every pass to come."""
    one, two = pair
    changed, kept, other = jobs(3)
    first, second, third = one.claim()
    assert (changed, kept, other) == (first.id, second.id, third.id)
    with connection.cursor() as cursor:
        cursor.execute(statement, [changed])
    before = list(Job.objects.filter(pk=changed).values_list("state", "attempt"))
    assert ["lost"] == answers(two.settle(succeeded(first)))
    assert lease_left(first.lease), "it is another worker's"
    found = {each.lease: each.answer for each in one.settle(succeeded(first), succeeded(second))}
    assert {first.lease: "lost", second.lease: "settled"} == found
    assert before == list(Job.objects.filter(pk=changed).values_list("state", "attempt"))
    assert [third.lease] == list(Lease.objects.values_list("pk", flat=True))
    assert ["lost"] == answers(one.settle(succeeded(first)))


def test_a_job_that_was_made_ready_by_hand_can_be_claimed_while_its_old_run_goes_on(
    pair: list[Desk],
):
    one, two = pair
    [pk] = jobs()
    [old] = one.claim()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET state = 'ready'")
        cursor.execute("UPDATE django_jobs_lease SET graced = true")
    [new] = two.claim()
    [lease] = Lease.objects.all()
    assert (new.lease, two.id, False) == (lease.pk, lease.worker, lease.graced)
    assert ["lost"] == answers(one.settle(succeeded(old, '"old"')))
    assert ["settled"] == answers(two.settle(succeeded(new, '"new"')))
    assert ("new", 2) == (job_row(pk).result, job_row(pk).attempt)


def test_a_lease_id_that_a_crash_gave_again_fences_the_job_it_is_for_now(pair: list[Desk]):
    """Claims commit unflushed: a crash may take back one of them, and the id that it drew."""
    one, _ = pair
    [first, second] = jobs(2)
    [lost, kept] = one.claim()
    again = replace(succeeded(lost), lease=kept.lease)  # the run of a claim that is forgotten
    assert ["lost"] == answers(one.settle(again))
    assert {"running"} == {job_row(first).state, job_row(second).state}
    assert ["settled", "settled"] == answers(one.settle(succeeded(lost), succeeded(kept)))
