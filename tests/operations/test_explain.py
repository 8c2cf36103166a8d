"""``explain`` says in one sentence why a job is not running, and what would help."""

from __future__ import annotations

import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from django_jobs.models import Dependency, Job, Lease, Limit, Placement, Queue, Skip, Worker
from django_jobs.operations.explain import explain
from django_jobs.operations.explain.explanation import SENTENCES, Explanation, HostLine, Situation
from django_jobs.operations.explain.hosts import MOST, reporting
from django_jobs.operations.explain.live import COUNTED
from django_jobs.operations.place import columns_of
from django_jobs.placement import RECORDED, Needs, Reason, Requires
from tests.operations.ended import ended
from tests.worlds import add, register

pytestmark = pytest.mark.django_db

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "reasons.md"
MOST_STATEMENTS = 10
DUE = "2999-01-01 12:00:00 UTC"


def told(job: int) -> Explanation:
    return explain(job, database="default")


def one(queue: str = "mail", **fields: Any) -> int:
    return add(queue, **fields)[0]


def placed(task: str | None = None, **asked: Any) -> int:
    """Return the id of a placement that asks for this."""
    needs = Needs(requires=Requires(**asked), task=task)
    columns = {**columns_of(needs), "resources": dict(needs.amounts), "task": task}
    return Placement.objects.create(**columns).pk


def worker(name: str = "web", **fields: Any) -> Any:
    """Register a live worker of this version that has eight slots a queue."""
    return register(**{"name": name, "default_slots": 8, **fields})


def ago(seconds: float) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)


def lease(job: int, by: Any, *, seconds: float = 60) -> None:
    until = timezone.now() + timedelta(seconds=seconds)
    Lease.objects.create(job_id=job, worker=by, expires_at=until)


def held(by: Any, *, queue: str = "mail", **fields: Any) -> int:
    """Let a worker hold one more job."""
    job = one(queue, state="running", attempt=1, **fields)
    lease(job, by)
    return job


def results(explanation: Explanation) -> dict[str, str]:
    return {check.name: check.result for check in explanation.checks}


def detail(explanation: Explanation, name: str) -> str:
    return {check.name: check.detail for check in explanation.checks}[name]


def lines(explanation: Explanation) -> dict[str, HostLine]:
    return {line.label: line for line in explanation.hosts}


def pause(queue: str = "mail", **fields: Any) -> None:
    said = {"paused": True, "paused_by": "ana", "paused_reason": "bad feed", **fields}
    Queue.objects.create(backend="default", name=queue, **said)


# every situation, in its sentence


def not_served() -> int:
    worker(queues=["other"])
    return one()


def paused() -> int:
    worker()
    pause()
    return one()


def unknown_task() -> int:
    worker()
    placement = placed(task="shop.tasks.new")
    Skip.objects.create(host="web", placement=placement, reason="unknown_task")
    job = one(placement=placement)
    Job.objects.filter(pk=job).update(task="shop.tasks.new")
    return job


def no_worker_fits() -> int:
    worker(labels=["ssd"])
    return one(placement=placed(labels={"gpu"}, resources={"memory_mb": 6000}))


def at_capacity() -> int:
    held(worker(capacity=1))
    return one()


def ready() -> int:
    worker()
    return one()


def scheduled(attempt: int = 0) -> int:
    worker()
    return one(state="scheduled", run_after="2999-01-01T12:00:00Z", attempt=attempt)


def waiting() -> int:
    worker()
    job = one(state="waiting")
    later: Any = {"state": "scheduled", "run_after": "2999-01-01T12:00:00Z"}
    for state in (later, {"state": "succeeded", "finished_at": ago(1)}):
        parent = one(**{"task": "shop.tasks.resize", **state})
        Dependency.objects.create(parent=parent, child=job)
    return job


def limited(*, in_use: int = 1, size: int | None = 1, **fields: Any) -> int:
    """A blocked job, unless told otherwise, whose key stands like this."""
    worker()
    Limit.objects.create(key="feeds:acme", size=size, in_use=in_use)
    said = {"state": "blocked", "limit_key": "feeds:acme", "limit_size": size}
    return one(**{**said, **fields})


def blocked() -> int:
    job = limited()
    holder = held(worker("vm"), limit_key="feeds:acme")
    Lease.objects.filter(job_id=holder).update(limit_key="feeds:acme")
    return job


def rated() -> int:
    at: Any = {"run_after": "2999-01-01T12:00:00Z", "reserved_at": "2999-01-01T12:00:00Z"}
    return limited(state="scheduled", limit_every=1.0, **at)


def running(*, timeout: float | None = None, **fields: Any) -> int:
    return held(worker(**fields), timeout=timeout)


def timed_out() -> int:
    job = running(timeout=30.0)
    Lease.objects.filter(job_id=job).update(timed_out_at=ago(1))
    return job


def of_a_later_version() -> int:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_jobs_job DROP CONSTRAINT django_jobs_job_known_state")
    return one(state="resting")


SITUATIONS: dict[Situation, tuple[Any, str]] = {
    Situation.QUEUE_NOT_SERVED: (not_served, "No live worker serves the queue “mail”."),
    Situation.QUEUE_PAUSED: (paused, "The queue “mail” is paused by ana (“bad feed”)."),
    Situation.UNKNOWN_TASK: (unknown_task, "No live worker knows the task shop.tasks.new."),
    Situation.NO_WORKER_FITS: (
        no_worker_fits,
        "No live worker of the queue “mail” fits what the job needs: gpu, memory_mb 6000.",
    ),
    Situation.AT_CAPACITY: (
        at_capacity, "Every live worker of the queue “mail” that fits is at capacity.",
    ),
    Situation.READY: (ready, "Ready: web:1 has room for it."),
    Situation.SCHEDULED: (scheduled, f"Scheduled: it may start at {DUE}."),
    Situation.RETRYING: (
        lambda: scheduled(2), f"Attempt 2 of 3 failed; the next is due at {DUE}.",
    ),
    Situation.WAITING: (
        waiting, "It waits for 1 of 2 parents: shop.tasks.resize {parent} is scheduled.",
    ),
    Situation.BLOCKED: (
        blocked, "Its limit, feeds:acme 1/1, is held by tests.tasks.ok {holder} on vm:1.",
    ),
    Situation.LIMIT_STOPPED: (
        lambda: limited(size=0), "Its limit, feeds:acme, is 0: no job of it starts.",
    ),
    Situation.LIMIT_FREE: (
        lambda: limited(size=2),
        "Its limit, feeds:acme 1/2, has room again: the next sweep makes it ready.",
    ),
    Situation.RATED: (rated, f"Its rate, feeds:acme, lets it start at {DUE}."),
    Situation.RUNNING: (running, "It is running on web:1."),
    Situation.TIMED_OUT: (
        timed_out, "It is over its timeout of 30 s on web:1 and has not ended.",
    ),
    Situation.LOST: (
        lambda: running(seen_at=ago(25)), "Its worker web:1 seems to be lost.",
    ),
    Situation.SUCCEEDED: (lambda: ended(state="succeeded")[0], "It has succeeded."),
    Situation.DEAD: (lambda: ended()[0], "It is dead after attempt 3 of 3."),
    Situation.DROPPED: (
        lambda: ended(state="dropped")[0], "It failed for good and was dropped.",
    ),
    Situation.CANCELLED: (lambda: ended(state="cancelled")[0], "It was cancelled."),
    Situation.EXPIRED: (
        lambda: ended(state="expired")[0], "It expired before it could start.",
    ),
    Situation.UNKNOWN: (
        of_a_later_version, "Another version wrote its state, “resting”.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_situation_has_its_sentence(situation):
    make, sentence = SITUATIONS[situation]
    verdict = told(make()).verdict
    parent = Dependency.objects.order_by("pk").values_list("parent", flat=True).first()
    holder = Lease.objects.values_list("job_id", flat=True).first()
    sentence = sentence.format(parent=parent, holder=holder)
    assert (situation, sentence) == (verdict.situation, verdict.sentence)


def test_each_situation_is_tried_above():
    assert list(Situation) == list(SITUATIONS) == list(SENTENCES)


def test_the_sentence_says_the_same_twice():
    job = scheduled()
    assert told(job).verdict.sentence == told(job).verdict.sentence


def test_the_sentence_is_in_the_language_of_the_reader():
    verdict = told(not_served()).verdict
    with translation.override(None):
        assert "No live worker" in verdict.sentence


# what helps


@pytest.mark.parametrize(
    ("make", "command"),
    [
        (not_served, "python manage.py jobworker --queue mail"),
        (at_capacity, "python manage.py jobworker --queue mail"),
        (
            no_worker_fits,
            "python manage.py jobworker --queue mail --label gpu --resource memory_mb=6000",
        ),
        (paused, None),
        (unknown_task, None),
        (ready, None),
        (scheduled, None),
        (running, None),
    ],
)
def test_the_command_starts_what_is_missing(make, command):
    assert command == told(make()).verdict.command


def test_the_command_names_backend_and_host_and_no_label_that_comes_by_itself():
    asked: Any = {"host": "db-1", "labels": {"os:linux", "arch:arm64", "a:b"}}
    job = one("it's", backend="other", placement=placed(**asked))
    words = ["--queue", "it's", "--backend", "other", "--name", "db-1", "--label", "a:b"]
    command = told(job).verdict.command
    assert ["python", "manage.py", "jobworker", *words] == shlex.split(command or "")


def test_an_amount_in_the_command_is_no_smaller_than_what_is_asked():
    worker()
    job = one(placement=placed(resources={"memory_mb": 16_777_216}))
    assert "--resource memory_mb=16777216" in str(told(job).verdict.command)


def test_no_command_is_given_where_the_flag_would_mean_another_queue():
    assert told(one("a:3")).verdict.command is None


def test_no_worker_helps_where_an_operator_gave_the_queue_no_slots():
    worker()
    Queue.objects.create(backend="default", name="mail", slots=0)
    verdict = told(one()).verdict
    assert (Situation.AT_CAPACITY, None) == (verdict.situation, verdict.command)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_remedy_is_the_button_that_helps(situation):
    remedies = {
        Situation.QUEUE_PAUSED: "resume",
        Situation.SCHEDULED: "run_now",
        Situation.RETRYING: "run_now",
        **dict.fromkeys(("dead", "dropped", "cancelled", "expired"), "requeue"),
    }
    assert remedies.get(situation) == told(SITUATIONS[situation][0]()).verdict.remedy


# the checks


def test_checks_come_in_the_order_of_the_claim():
    assert [
        "state", "not expired", "run time", "dependencies", "queue not paused", "limit",
        "a live worker serves the queue", "a worker fits", "a place is free", "position",
    ] == [check.name for check in told(ready()).checks]  # fmt: skip


def test_the_first_that_fails_blocks_and_later_ones_would():
    worker(queues=["other"], labels=["ssd"])
    pause()
    explanation = told(one(placement=placed(labels={"gpu"})))
    assert {
        "queue not paused": "blocks", "a live worker serves the queue": "would_block",
        "a worker fits": "would_block", "a place is free": "unknown", "position": "pass",
    }.items() <= results(explanation).items()  # fmt: skip
    verdict = explanation.verdict
    assert (
        "Even after resuming it would wait: No live worker serves the queue “mail”."
        == verdict.then
    )
    assert "python manage.py jobworker --queue mail --label gpu" == verdict.command


@pytest.mark.parametrize("capacity", [0, 1])
def test_workers_of_other_queues_say_nothing_of_a_free_place(capacity):
    worker(queues=["other"], capacity=capacity)
    explanation = told(one())
    assert ("pass", "unknown") == (
        results(explanation)["a worker fits"], results(explanation)["a place is free"],
    )  # fmt: skip
    assert explanation.verdict.then is None


def test_what_would_block_next_is_said_of_a_scheduled_job_too():
    then = told(one(state="scheduled", run_after="2999-01-01T12:00:00Z")).verdict.then
    assert "Even then it would wait: No live worker serves the queue “mail”." == then


def test_nothing_comes_next_when_only_one_thing_blocks():
    assert told(at_capacity()).verdict.then is None


def test_a_scheduled_job_that_is_due_waits_for_what_a_ready_one_would():
    job = one(state="scheduled", run_after=ago(5))
    assert told(job).verdict.situation == Situation.QUEUE_NOT_SERVED
    worker()
    assert told(job).verdict.situation == Situation.SCHEDULED
    assert {"pass", "unknown"} == set(results(told(job)).values())


def test_a_ready_job_is_not_held_back_by_the_time_it_was_due():
    worker()
    job = one(run_after="2999-01-01T12:00:00Z")  # somebody said: run it now
    assert Situation.READY == told(job).verdict.situation


def test_the_position_counts_those_that_are_taken_first():
    worker()
    one()  # of a lower priority
    one(priority=5)
    one("other", priority=5)
    one(priority=5, suspect=True)
    one(priority=5, placement=1)
    one(priority=5, backend="other")
    job = one(priority=1)
    later = one(priority=1)
    assert "1 job that asks the same is ahead" == detail(told(job), "position")
    assert "2 jobs that ask the same are ahead" == detail(told(later), "position")
    assert "it is the first of those that ask the same" == detail(told(one("new")), "position")


def test_the_position_is_counted_no_further_than_it_is_said():
    add("mail", COUNTED + 5)
    job = one()
    with CaptureQueriesContext(connection) as caught:
        assert f"more than {COUNTED} jobs that ask the same are ahead" == detail(
            told(job), "position"
        )
    assert any(f"LIMIT {COUNTED + 1}" in query["sql"] for query in caught)


def test_the_pause_says_by_whom_why_since_and_until():
    worker()
    pause(paused_at="2026-01-01T10:00:00Z", paused_until="2999-01-01T12:00:00Z")
    assert (
        f"by ana (“bad feed”), since 2026-01-01 10:00:00 UTC, until {DUE}"
        == detail(told(one()), "queue not paused")
    )  # fmt: skip


def test_a_pause_of_nobody_is_of_somebody():
    worker()
    pause(paused_by=None, paused_reason=None)
    assert "The queue “mail” is paused by somebody." == told(one()).verdict.sentence


@pytest.mark.parametrize("until", ["infinity", "20000-01-01"])
def test_a_time_that_python_cannot_hold_hides_nothing(until):
    worker()
    job = one()
    pause()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET run_after = %s", [until])
        cursor.execute("UPDATE django_jobs_queue SET paused_until = 'infinity'")
    assert told(job).verdict.situation == Situation.QUEUE_PAUSED


@pytest.mark.parametrize(("seconds", "word"), [(3600, "queue_paused"), (-1, "ready")])
def test_a_pause_ends_by_the_clock_of_the_database(seconds, word):
    worker()
    pause(paused_until=ago(-seconds))
    assert word == told(one()).verdict.situation


# jobs that nobody should be told to wait for


@pytest.mark.parametrize("state", ["succeeded", "dead", "dropped", "cancelled", "expired"])
def test_a_job_that_has_ended_gets_no_advice_on_hosts(state):
    worker()
    explanation = told(ended(state=state)[0])
    assert ((), (), None) == (explanation.checks, explanation.hosts, explanation.verdict.command)


def test_a_running_job_tells_who_holds_it_until_when():
    explanation = told(running())
    assert ((), ()) == (explanation.checks, explanation.hosts)
    assert explanation.lease is not None
    assert ("web:1", "live") == (explanation.lease.label, explanation.lease.health)
    assert explanation.lease.until > explanation.now


def test_a_job_that_is_not_there_is_missed():
    with pytest.raises(Job.DoesNotExist):
        told(4711)


# lost


def unheld() -> int:
    return one(state="running", attempt=1)


def of_a_worker_without_a_row() -> int:
    return held(uuid4())


def lapsed() -> int:
    job = unheld()
    lease(job, worker(), seconds=-1)
    return job


def of_a_silent_renewer() -> int:
    return running(seen_at=ago(31))


def of_a_silent_loop() -> int:
    return running(loop_at=ago(25))


def of_a_worker_that_ended() -> int:
    return running(state="stopped")


@pytest.mark.parametrize(
    "make",
    [
        unheld, of_a_worker_without_a_row, lapsed, of_a_silent_renewer, of_a_silent_loop,
        of_a_worker_that_ended,
    ],
)  # fmt: skip
def test_a_running_job_that_nobody_renews_is_lost(make):
    explanation = told(make())
    assert Situation.LOST == explanation.verdict.situation
    assert "blocks" == results(explanation)["state"]


def test_a_draining_worker_loses_nothing():
    assert Situation.RUNNING == told(running(state="draining")).verdict.situation


@pytest.mark.parametrize(
    ("fields", "then"),
    [
        ({}, "When the lease has lapsed, a live worker makes it ready again."),
        ({"max_attempts": 1}, "It dies of that when the lease has lapsed."),
        ({"idempotent": False}, "It dies of that when the lease has lapsed."),
    ],
)
def test_what_becomes_of_a_lost_job_is_said(fields, then):
    worker("other")
    lost = worker(seen_at=ago(60))
    assert then == told(held(lost, **fields)).verdict.then


def test_a_lost_job_that_nobody_would_take_says_so():
    verdict = told(running(seen_at=ago(60))).verdict
    sentence = "No live worker serves the queue “mail”."
    assert f"When the lease has lapsed it would wait: {sentence}" == verdict.then


# the hosts


def test_a_worker_of_a_queue_that_is_late_or_gone_does_not_serve_it():
    worker(seen_at=ago(25))
    worker(loop_at=ago(25))
    worker(loop_at=ago(60))
    explanation = told(one())
    assert Situation.QUEUE_NOT_SERVED == explanation.verdict.situation
    assert ["late", "late", "gone"] == [line.reason for line in explanation.hosts]
    assert ["late", "late", "gone"] == [line.health for line in explanation.hosts]
    assert "web:1: late" in detail(explanation, "a live worker serves the queue")


def test_a_draining_worker_does_not_serve_and_says_so():
    worker(state="draining")
    explanation = told(one())
    assert Situation.QUEUE_NOT_SERVED == explanation.verdict.situation
    assert ["draining"] == [line.reason for line in explanation.hosts]


def test_a_worker_that_was_gone_for_an_hour_is_left_out():
    worker("old", seen_at=ago(3600 + 35))
    worker("new", seen_at=ago(3600 + 25))
    assert ["new"] == [line.host for line in told(one()).hosts]


def test_workers_of_other_backends_and_stopped_ones_are_left_out():
    worker("other", backend="other")
    worker("ended", state="stopped")
    assert () == told(one()).hosts


def test_live_workers_come_first_and_no_more_than_a_thousand_are_looked_at():
    Worker.objects.bulk_create(
        Worker(
            id=uuid4(), backend="default", name=f"web-{number}", pid=1, version="0", capacity=1,
            loop_at=ago(1),
        )
        for number in range(MOST - 2)
    )  # fmt: skip
    for number in range(3):
        worker(f"late-{number}", seen_at=ago(25))
    worker("idle", state="draining")
    found = told(one()).hosts
    assert MOST == len(found) == len(reporting("default", database="default"))
    assert ["live"] * (MOST - 2) + ["draining", "late"] == [line.health for line in found]


def test_a_test_worker_serves_nothing():
    worker("run_jobs", queues=[])
    assert [Reason.QUEUE_NOT_SERVED] == [line.reason for line in told(one()).hosts]


def test_every_host_says_its_first_reason_and_what_it_would_say_next():
    worker("a", labels=["gpu"], queues=["other"], capacity=0)
    worker("b", aliases=["rack"], labels=["gpu"], resources={"cpus": 1})
    worker("c", aliases=["rack"], labels=["gpu"], resources={"cpus": 4})
    asked: Any = {"host": "rack", "labels": {"gpu"}, "resources": {"cpus": 2}}
    found = lines(told(one(placement=placed(**asked))))
    assert [
        ("queue_not_served", "serves other"),
        ("host", "rack"),
        ("resource", "cpus 0 of 2"),
        ("at_capacity", "all places are taken, all slots of the queue are taken"),
    ] == list(found["a:1"].said)
    assert (Reason.RESOURCE, "cpus 1 of 2") == (found["b:1"].reason, found["b:1"].detail)
    assert found["c:1"].reason is None


@pytest.mark.parametrize(
    ("fields", "hold", "text"),
    [
        ({"capacity": 1}, {"queue": "other"}, "all places are taken"),
        ({"slots": {"mail": 1}}, {}, "all slots of the queue are taken"),
        ({"default_slots": 1}, {}, "all slots of the queue are taken"),
        ({"slots": {"mail": 9}, "default_slots": 1}, {"queue": "other"}, None),
        ({"capacity": 9, "default_slots": None}, {}, None),
        ({"capacity": 0, "default_slots": None}, {"queue": "other"}, "all places are taken"),
    ],
)
def test_places_and_slots_are_those_of_the_row_less_what_it_holds(fields, hold, text):
    held(worker(**fields), **hold)
    [line] = told(one()).hosts
    assert (text or "") == line.detail.partition(",")[0]
    assert (text is None) == (line.reason is None)


def test_a_lease_takes_a_place_although_its_job_is_gone():
    lease(4711, worker(capacity=1))
    assert "all places are taken" == told(one()).hosts[0].detail


def test_a_worker_that_does_not_tell_its_slots_has_eight_of_each_queue():
    mine = worker(default_slots=None)
    for _ in range(7):
        held(mine)
    assert told(one()).hosts[0].reason is None
    held(mine)
    assert "all slots of the queue are taken" == told(one()).hosts[0].detail


@pytest.mark.parametrize(("slots", "reason"), [(1, "at_capacity"), (2, None)])
def test_the_word_of_an_operator_on_slots_beats_the_workers_own(slots, reason):
    held(worker(slots={"mail": 1}))
    Queue.objects.create(backend="default", name="mail", slots=slots)
    Queue.objects.create(backend="other", name="mail", slots=0)
    assert reason == told(one()).hosts[0].reason


def test_resources_are_less_by_what_held_jobs_asked_for():
    mine = worker(resources={"cpus": 0.3})
    tenth = placed(resources={"cpus": 0.1})
    for _ in range(2):
        held(mine, queue="other", placement=tenth)
    assert told(one(placement=tenth)).hosts[0].reason is None
    held(mine, queue="other", placement=tenth)
    [line] = told(one(placement=tenth)).hosts
    assert (Reason.AT_CAPACITY, "cpus in use") == (line.reason, line.detail)
    assert told(one()).hosts[0].reason is None


def test_a_worker_holds_one_suspect():
    held(worker(), suspect=True)
    assert "it holds another suspect" == told(one(suspect=True)).hosts[0].detail
    assert told(one()).hosts[0].reason is None


# what hosts wrote down


def test_since_when_a_host_says_so_is_what_it_wrote_down():
    worker("a")
    worker("b")
    placement = placed(labels={"gpu"})
    since = ago(99)
    Skip.objects.create(host="a", placement=placement, reason="label", since=since)
    Skip.objects.create(host="b", placement=placement + 1, reason="label")
    found = lines(told(one(placement=placement)))
    assert (since, True) == (found["a:1"].since, found["a:1"].recorded)
    assert (None, False) == (found["b:1"].since, found["b:1"].recorded)


def test_what_was_written_down_for_another_reason_dates_nothing():
    worker("a", queues=["other"])
    placement = placed(labels={"gpu"})
    Skip.objects.create(host="a", placement=placement, reason="label")
    [line] = told(one(placement=placement)).hosts
    assert ("queue_not_served", None, False) == (line.reason, line.since, line.recorded)


def test_the_row_of_a_worker_that_offers_more_now_beats_what_its_host_wrote_down():
    worker("a", labels=["gpu"])
    placement = placed(labels={"gpu"})
    Skip.objects.create(host="a", placement=placement, reason="label")
    assert told(one(placement=placement)).hosts[0].reason is None


def test_a_host_without_a_worker_is_known_by_what_it_wrote_down():
    placement = placed(labels={"gpu"})
    Skip.objects.create(host="away", placement=placement, reason="label", detail="gpu")
    Skip.objects.create(host="later", placement=placement, reason="phase_of_the_moon")
    away, later = told(one(placement=placement)).hosts
    assert ("away", None, "gone", Reason.LABEL, "gpu", True) == (
        away.host, away.worker, away.health, away.reason, away.detail, away.recorded,
    )  # fmt: skip
    assert ("gone", "phase_of_the_moon") == (later.reason, later.detail)


def test_a_host_knows_a_task_unless_it_wrote_down_that_it_does_not():
    worker("a")
    worker("b")
    placement = placed(task="shop.tasks.new")
    Skip.objects.create(host="b", placement=placement, reason="unknown_task")
    explanation = told(one(placement=placement))
    assert Situation.READY == explanation.verdict.situation
    assert {"a:1": None, "b:1": "unknown_task"} == {
        label: line.reason for label, line in lines(explanation).items()
    }


def test_a_worker_that_knows_of_no_placements_takes_only_jobs_for_any_host():
    worker(default_slots=None)
    for reason, placement in (
        ("unknown_task", placed(task="tests.tasks.ok")),
        ("host", placed(host="web")),
    ):
        assert [reason] == [line.reason for line in told(one(placement=placement)).hosts]
    assert told(one()).hosts[0].reason is None


def test_the_task_is_not_what_is_missing_where_a_worker_of_another_queue_knows_it():
    worker("a", queues=["other"])
    worker("b")
    placement = placed(task="shop.tasks.new")
    Skip.objects.create(host="b", placement=placement, reason="unknown_task")
    verdict = told(one(placement=placement)).verdict
    assert Situation.NO_WORKER_FITS == verdict.situation
    assert "task shop.tasks.new" in verdict.sentence


@pytest.mark.parametrize("hand", [None, {"labels": ["two words"]}])
def test_a_placement_that_cannot_be_read_fits_nowhere(hand):
    worker()
    placement = 4711
    if hand is not None:
        placement = Placement.objects.create(digest="0", **hand).pk
    verdict = told(one(placement=placement)).verdict
    assert (Situation.NO_WORKER_FITS, None) == (verdict.situation, verdict.command)
    assert f"a placement that cannot be read ({placement})" in verdict.sentence


# what it costs


@pytest.mark.parametrize("situation", SITUATIONS)
def test_it_takes_a_few_statements_whatever_the_situation(situation):
    job = SITUATIONS[situation][0]()
    with CaptureQueriesContext(connection) as caught:
        told(job)
    assert len(caught) <= MOST_STATEMENTS


def test_the_number_of_statements_grows_with_nothing():
    placement = placed(labels={"gpu"})
    job = one(placement=placement)
    with CaptureQueriesContext(connection) as few:
        told(job)
    for number in range(5):
        held(worker(f"web-{number}"), placement=placement)
        Skip.objects.create(host=f"web-{number}", placement=placement, reason="label")
        one(placement=placement)
    with CaptureQueriesContext(connection) as many:
        told(job)
    assert len(few) == len(many)


# the reference


def table(heading: str) -> list[list[str]]:
    text = REFERENCE.read_text(encoding="utf-8").partition(f"\n| {heading} |")[2]
    found = text.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in found]


def test_the_reference_has_every_situation_with_its_sentence():
    with translation.override(None):
        known = [[f"`{each}`", str(sentence)] for each, sentence in SENTENCES.items()]
    rows = table("Situation")
    assert known == [row[:2] for row in rows]
    assert all(len(row) == 3 and row[2] for row in rows)


def test_the_reference_has_every_reason_in_the_order_in_which_it_is_asked():
    written = {reason: "yes" if reason in RECORDED else "no" for reason in Reason}
    rows = table("Code")
    assert [[f"`{each}`", word] for each, word in written.items()] == [
        [row[0], row[2]] for row in rows
    ]
    assert all(len(row) == 4 and row[3] for row in rows)


def test_a_sentence_names_no_duration():
    text = " ".join(str(sentence) for sentence in SENTENCES.values())
    assert not re.search(r"second|ago|minute|hour", text)
