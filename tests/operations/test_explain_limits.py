"""What ``explain`` says of limits, rates, parents and deadlines."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_jobs.models import Dependency, Job, Lease, Limit, Worker
from django_jobs.operations.explain.explanation import Situation
from django_jobs.operations.explain.kin import COUNTED, NAMED, kin_of
from django_jobs.planner import Turns
from django_jobs.worker.capacity import Capacity
from tests.operations.test_explain import (
    DUE,
    MOST_STATEMENTS,
    ago,
    detail,
    held,
    limited,
    one,
    pause,
    results,
    told,
    worker,
)
from tests.worlds import add, take, undone

pytestmark = pytest.mark.django_db

KEY = "feeds:acme"
NEVER = "This job will never run unless it is requeued."


def holder(by: Any, *, seconds: float = 60, **fields: Any) -> int:
    """Let a worker run a job that takes a place of the key."""
    job = held(by, limit_key=KEY, **fields)
    until = timezone.now() + timedelta(seconds=seconds)
    Lease.objects.filter(job_id=job).update(limit_key=KEY, expires_at=until)
    return job


def ready(**fields: Any) -> int:
    """Return a ready job; its times are given as seconds from now."""
    times = {"expires_at", "started_at", "reserved_at"} & fields.keys()
    fields |= {name: ago(-fields[name]) for name in times}
    return limited(**{"state": "ready", **fields})


def came_to(job: int) -> str:
    """Return the state in which a claim of the job would leave it, by a worker that may."""
    lanes = Capacity(cap=9, slots={}, default_slots=9).lanes(["mail"], Turns({}))
    with undone():
        take(lanes, room=1, worker=worker())
        return Job.objects.get(pk=job).state


def child_of(*states: str, **fields: Any) -> tuple[int, list[int]]:
    """Return a job that waits, and its parents in these states."""
    worker()
    child = one(state="waiting", **fields)
    parents = []
    for state in states:
        end: Any = {} if state in ("ready", "running") else {"finished_at": ago(1)}
        parents += add("mail", state=state, attempt=1, task="shop.tasks.resize", **end)
    Dependency.objects.bulk_create(Dependency(parent=pk, child=child) for pk in parents)
    return child, parents


# what a claim would come to


@pytest.mark.parametrize(
    ("fields", "situation", "state"),
    [
        ({"in_use": 0}, "ready", "running"),
        ({"in_use": 1}, "blocked", "blocked"),
        ({"in_use": 1, "limit_discard": True}, "blocked", "cancelled"),
        ({"size": 0, "in_use": 0}, "limit_stopped", "blocked"),
        ({"in_use": 9, "size": None}, "ready", "running"),
        ({"in_use": 0, "expires_at": -5}, "expired", "expired"),
        ({"in_use": 0, "expires_at": -5, "started_at": -9}, "ready", "running"),
        ({"in_use": 0, "expires_at": 60}, "ready", "running"),
    ],
)
def test_of_a_ready_job_it_is_said_what_its_claim_comes_to(fields, situation, state):
    job = ready(**fields)
    assert (situation, state) == (told(job).verdict.situation, came_to(job))


@pytest.mark.parametrize(
    ("override", "situation", "state"),
    [(None, "blocked", "blocked"), (2, "ready", "running"), (0, "limit_stopped", "blocked")],
)
def test_an_operators_size_counts_for_more_than_the_jobs(override, situation, state):
    job = ready()
    Limit.objects.update(override=override)
    assert (situation, state) == (told(job).verdict.situation, came_to(job))


@pytest.mark.parametrize(
    ("override", "situation"), [(None, "blocked"), (2, "limit_free"), (0, "limit_stopped")]
)
def test_it_counts_for_a_blocked_job_too(override, situation):
    job = limited()
    Limit.objects.update(override=override)
    assert situation == told(job).verdict.situation


def test_a_blocked_job_is_woken_by_the_size_of_the_job_that_was_claimed_last():
    assert "limit_free" == told(limited(size=2, limit_size=1)).verdict.situation
    Limit.objects.update(in_use=2)
    Job.objects.update(limit_size=3)
    assert "blocked" == told(Job.objects.get().pk).verdict.situation


def test_a_key_of_which_no_job_has_been_claimed_has_room():
    job = ready()
    Limit.objects.all().delete()
    assert ("ready", "running") == (told(job).verdict.situation, came_to(job))
    Job.objects.filter(pk=job).update(state="blocked")
    assert "limit_free" == told(job).verdict.situation


@pytest.mark.parametrize(
    ("fields", "next_in", "situation", "state"),
    [
        ({}, 90, "rated", "scheduled"),
        ({"limit_discard": True}, 90, "rated", "cancelled"),
        ({}, -30, "ready", "running"),
        ({"limit_burst": 2}, 30, "ready", "running"),
        ({"limit_burst": 2}, 90, "rated", "scheduled"),
        ({"reserved_at": -5}, 90, "ready", "running"),
        ({"reserved_at": -15}, 90, "rated", "scheduled"),
    ],
)
def test_a_ready_job_that_is_too_early_for_its_rate_is_told_when(
    fields, next_in, situation, state
):
    job = ready(in_use=0, limit_every=60.0, **fields)
    next_at = ago(-next_in)
    Limit.objects.update(next_at=next_at)
    verdict = told(job).verdict
    assert (situation, state) == (verdict.situation, came_to(job))
    if situation == "rated":
        start = next_at - timedelta(seconds=60 * (fields.get("limit_burst", 1) - 1))
        assert f"lets it start at {start:%Y-%m-%d %H:%M:%S} UTC." in verdict.sentence


def test_a_job_that_its_rate_has_scheduled_is_told_when():
    at: Any = {"run_after": DUE.replace(" UTC", "Z"), "reserved_at": DUE.replace(" UTC", "Z")}
    job = limited(state="scheduled", limit_every=1.0, **at)
    verdict = told(job).verdict
    assert ("rated", f"Its rate, {KEY}, lets it start at {DUE}.") == (
        verdict.situation, verdict.sentence,
    )  # fmt: skip
    Job.objects.filter(pk=job).update(run_after="2999-01-02T12:00:00Z", attempt=1)
    assert "retrying" == told(job).verdict.situation


@pytest.mark.parametrize("state", ["waiting", "scheduled"])
def test_a_job_whose_time_has_not_come_does_not_wait_for_a_place(state):
    job = limited(state=state, run_after="2999-01-01T12:00:00Z")
    assert "pass" == results(told(job))["limit"]
    Limit.objects.update(override=0)
    assert "would_block" == results(told(job))["limit"]


def test_a_lost_job_does_not_wait_for_its_own_place():
    Limit.objects.create(key=KEY, size=1, in_use=1)
    worker("other")
    job = holder(worker(seen_at=ago(60)), limit_size=1)
    assert "pass" == results(told(job))["limit"]
    Limit.objects.update(override=0)
    assert "would_block" == results(told(job))["limit"]


# the words


def test_under_a_full_limit_stand_lease_waiters_and_place():
    job = limited()
    add("mail", 2, state="blocked", limit_key=KEY)
    add("mail", state="blocked", limit_key=KEY, priority=1)
    add("mail", state="blocked", limit_key="another", priority=1)
    mine = holder(worker("vm"))
    held(worker("other"))
    until: datetime = Lease.objects.get(job_id=mine).expires_at
    assert (
        f"The lease of {mine} lasts until {until:%Y-%m-%d %H:%M:%S} UTC."
        " 4 jobs wait for the key, this one is number 2." == told(job).verdict.more
    )


def test_it_is_the_only_one_that_waits():
    assert "1 job waits for the key, this one is number 1." == told(limited()).verdict.more


def test_a_ready_job_has_no_place_among_those_that_wait():
    job = ready()
    assert told(job).verdict.more is None
    add("mail", 2, state="blocked", limit_key=KEY)
    assert "2 jobs wait for the key." == told(job).verdict.more


def test_one_that_does_not_wait_is_told_so():
    job = ready(limit_discard=True)
    add("mail", state="blocked", limit_key=KEY)
    more = "It does not wait for a place: the next claim cancels it."
    assert more == told(job).verdict.more


def test_waiters_are_counted_no_further_than_they_are_said():
    job = limited()
    add("mail", COUNTED + 5, state="blocked", limit_key=KEY)
    with CaptureQueriesContext(connection) as caught:
        assert f"More than {COUNTED} jobs wait for the key." == told(job).verdict.more
    assert any(f"LIMIT {COUNTED + 1}" in query["sql"] for query in caught)


@pytest.mark.parametrize(
    ("column", "seconds", "word"), [("seen_at", 60, "gone"), ("loop_at", 25, "late")]
)
def test_of_a_holder_whose_worker_is_not_there_it_is_said_when_the_place_is_free(
    column, seconds, word
):
    job = limited()
    mine = holder(worker("vm", **{column: ago(seconds)}))
    until: datetime = Lease.objects.get(job_id=mine).expires_at
    assert str(told(job).verdict.more).startswith(
        f"The worker of {mine} is {word}: its place is free when its lease, which ends at"
        f" {until:%Y-%m-%d %H:%M:%S} UTC, has lapsed."
    )


def test_a_holder_of_a_worker_without_a_row_is_gone():
    job = limited()
    mine = holder(uuid4())
    assert f"The worker of {mine} is gone" in str(told(job).verdict.more)


def test_of_many_holders_a_few_are_named():
    job = limited(size=7, in_use=7)
    vm = worker("vm")
    made = [holder(vm) for _ in range(7)]
    sentence = told(job).verdict.sentence
    assert f"{KEY} 7/7, is held by tests.tasks.ok {made[0]} on vm:1, " in sentence
    assert sentence.endswith(f"tests.tasks.ok {made[4]} on vm:1 and 2 more.")
    assert 5 == str(told(job).verdict.more).count("The lease of")


def test_places_that_nobody_is_known_to_hold_are_said_so():
    assert told(limited()).verdict.sentence.endswith("is held by no job that is known.")


def test_a_pause_comes_before_the_limit():
    job = limited()
    pause()
    vm = worker("vm")
    mine = holder(vm)
    explanation = told(job)
    assert "queue_paused" == explanation.verdict.situation
    assert (
        f"Even after resuming it would wait: Its limit, {KEY} 1/1, is held by"
        f" tests.tasks.ok {mine} on vm:1." == explanation.verdict.then
    )
    assert ("blocks", "would_block") == (
        results(explanation)["queue not paused"], results(explanation)["limit"],
    )  # fmt: skip
    assert f"{KEY} 1/1" == detail(explanation, "limit")


def test_the_limit_comes_before_the_workers():
    job = limited(size=0)
    assert "pass" == results(told(job))["a place is free"]
    Worker.objects.update(queues=["mail"])
    Job.objects.filter(pk=job).update(queue="nobody")
    verdict = told(job).verdict
    assert "limit_stopped" == verdict.situation
    assert "Even then it would wait: No live worker serves the queue “nobody”." == verdict.then


def test_a_job_without_a_limit_says_so():
    worker()
    assert "none is set" == detail(told(one()), "limit")


# deadlines


def test_the_deadline_of_a_job_is_said():
    worker()
    job = one(expires_at="2999-01-01T12:00:00Z")
    assert f"it expires at {DUE} if it has not started by then" == detail(told(job), "not expired")


@pytest.mark.parametrize("state", ["ready", "waiting", "blocked", "scheduled"])
def test_a_job_whose_deadline_has_passed_waits_for_nothing_else(state):
    verdict = told(one(state=state, run_after=DUE.replace(" UTC", "Z"), expires_at=ago(5))).verdict
    assert (Situation.EXPIRED, None, None) == (verdict.situation, verdict.then, verdict.remedy)
    assert "The next sweep of a live worker writes that down." == verdict.more


@pytest.mark.parametrize("value", ["infinity", "20000-01-01"])
@pytest.mark.parametrize("column", ["expires_at", "reserved_at", "run_after"])
def test_a_time_that_python_cannot_hold_hides_nothing(column, value):
    job = limited(limit_every=1.0)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE django_jobs_job SET {column} = %s", [value])
        cursor.execute("UPDATE django_jobs_limit SET next_at = %s", [value])
    assert "blocked" == told(job).verdict.situation


# parents


def test_only_parents_that_are_not_done_are_named():
    job, (_, running, _) = child_of("succeeded", "running", "succeeded")
    verdict = told(job).verdict
    assert (
        f"It waits for 1 of 3 parents: shop.tasks.resize {running} is running." == verdict.sentence
    )
    assert (None, "blocks") == (verdict.more, results(told(job))["dependencies"])


@pytest.mark.parametrize("state", ["dead", "dropped", "cancelled", "expired"])
def test_a_job_whose_parent_has_failed_will_never_run(state):
    job, (_, failed) = child_of("running", state)
    verdict = told(job).verdict
    assert f"2 of 2 parents: shop.tasks.resize {failed} is {state}, shop" in verdict.sentence
    pause()
    assert (NEVER, None) == (verdict.more, told(job).verdict.then)


def test_unless_it_runs_after_a_failure_too():
    job, (running, _) = child_of("running", "dead", after_failure=True)
    verdict = told(job).verdict
    assert f"It waits for 1 of 2 parents: shop.tasks.resize {running}" in verdict.sentence
    assert verdict.more is None


def test_a_parent_that_is_not_there_is_waited_for_by_nobody():
    job, (parent,) = child_of("ready")
    Job.objects.filter(pk=parent).delete()
    verdict = told(job).verdict
    assert "It waits for 0 of 1 parents: they are done." == verdict.sentence
    assert "The next sweep of a live worker lets it go on." == verdict.more


def test_what_a_waiting_job_would_wait_for_next_is_said():
    job, _ = child_of("running")
    pause()
    then = "Even then it would wait: The queue “mail” is paused by ana (“bad feed”)."
    assert then == told(job).verdict.then


def test_kin_are_counted_and_named_in_one_statement():
    parent = one()
    children = add("mail", COUNTED + 5, state="waiting")
    Dependency.objects.bulk_create(Dependency(parent=parent, child=pk) for pk in children)
    Job.objects.filter(pk=children[600]).update(state="dead", finished_at=ago(1))
    with CaptureQueriesContext(connection) as caught:
        kin = kin_of(parent, after_failure=False, database="default")
    assert 1 == len(caught)
    assert (0, NAMED, f"{COUNTED}+") == (
        kin.parents.total, len(kin.children.named), kin.children.count,
    )  # fmt: skip
    assert [children[600], *children[: NAMED - 1]] == [each.job for each in kin.children.named]


@pytest.mark.parametrize("make", [limited, lambda: child_of("dead", "running")[0]])
def test_the_number_of_statements_grows_with_neither_holders_nor_parents(make):
    job = make()
    with CaptureQueriesContext(connection) as few:
        told(job)
    vm = worker("vm")
    for _ in range(4):
        holder(vm)
        Dependency.objects.create(parent=one(), child=job)
    with CaptureQueriesContext(connection) as many:
        told(job)
    assert len(few) == len(many) <= MOST_STATEMENTS
