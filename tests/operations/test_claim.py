"""What a claim takes and leaves, and what it writes and brings."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from datetime import timedelta
from math import inf
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from django_jobs.models import Event, Job, Lease, Queue, Worker
from django_jobs.operations.claim import Claimed
from django_jobs.planner import Lane, Turns
from django_jobs.worker.connection import PrivateDatabase
from tests.worlds import add, finish, lanes, register, take

# What a claim writes and brings.


@pytest.mark.django_db
def test_a_claim_counts_the_attempt_and_makes_a_lease():
    worker, [job] = register(), add("a")
    [claimed] = take(lanes("a"), room=1, worker=worker).jobs
    lease = Lease.objects.get()
    row = Job.objects.get()
    assert (claimed.lease, job, worker) == (lease.pk, lease.job_id, lease.worker)
    assert ("running", 1, [str(worker)]) == (row.state, row.attempt, row.worker_ids)
    left = lease.expires_at - timezone.now()
    assert timedelta(seconds=25) < left <= timedelta(seconds=30)


@pytest.mark.django_db
def test_a_claim_tells_the_first_job_that_it_saw_in_each_lane():
    add("a", 2)
    [urgent] = add("a", priority=5)
    add("a", 2)
    [suspect] = add("b", suspect=True)
    offered = [*lanes("a", "empty", "b"), Lane("b", 9, 0, 0, 1, 2, suspect=True)]
    got = take(offered, room=3, worker=register())
    assert [[0, 0, 0, -5, urgent], [2, 0, 1, 0, suspect]] == got.firsts
    assert 0 < got.took < 10
    assert [] == take(lanes("empty"), room=3, worker=register()).firsts


@pytest.mark.django_db
def test_a_claim_brings_each_column_in_its_field():
    plain: dict[str, Any] = {
        "priority": 3,
        "suspect": True,
        "metadata": {"a": 1},
        "run_after": timezone.now(),
        "attempt": 1,
        "max_attempts": 7,
        "life": 2,
        "backoff": "linear",
        "backoff_base": 1.5,
        "backoff_cap": 2.5,
        "backoff_jitter": 0.5,
        "retry_on": ["x.Y"],
        "give_up_on": ["y.Z"],
        "keep_dead": False,
        "idempotent": False,
        "timeout": 2.5,
        "worker_ids": ["before"],
        "started_at": timezone.now() - timedelta(hours=1),
        "args": [1],
        "kwargs": {"b": [2]},
    }
    add("a", **plain)
    lane = Lane("a", 8, 0, 0, 1, 0, suspect=True)
    [claimed] = take([lane], room=1, worker=register()).jobs
    row = Job.objects.get()
    as_text = {"args": "[1]", "kwargs": '{"b":[2]}', "metadata": '{"a":1}'}
    expected = {
        field.name: getattr(row, field.name)
        for field in fields(Claimed)
        if field.name not in {"lease", "alone", "errors", *as_text}
    }
    got = {name: getattr(claimed, name) for name in expected}
    assert expected == got
    assert 2 == claimed.attempt
    assert as_text == {name: getattr(claimed, name) for name in as_text}
    assert plain["started_at"] == claimed.started_at < claimed.last_attempted_at


@pytest.mark.django_db
def test_a_job_without_a_time_is_claimed_without_one():
    """The least that Python can hold must not stand in for none."""
    add("a")
    [claimed] = take(lanes("a"), room=1, worker=register()).jobs
    assert None is claimed.run_after


@pytest.mark.django_db
@pytest.mark.parametrize("timeout", [None, inf, 0.1, 3_153_600_000.0])
def test_a_claim_brings_what_the_job_says_of_its_timeout(timeout):
    add("a", timeout=timeout)
    [claimed] = take(lanes("a"), room=1, worker=register()).jobs
    assert (type(timeout), timeout) == (type(claimed.timeout), claimed.timeout)


@pytest.mark.django_db
def test_a_claim_brings_the_errors_of_this_life():
    [job] = add("a", attempt=3, life=2, max_attempts=9)
    for life, kind, data in [
        (1, "failed", "old"),
        (2, "failed", "one"),
        (2, "handed_back", "no"),
        (2, "rescued", "two"),
    ]:
        Event.objects.create(job_id=job, kind=kind, attempt=1, life=life, data=data)
    [claimed] = take(lanes("a"), room=1, worker=register()).jobs
    assert ['"one"', '"two"'] == claimed.errors


@pytest.mark.django_db
def test_a_first_attempt_has_no_errors():
    add("a")
    [claimed] = take(lanes("a"), room=1, worker=register()).jobs
    assert claimed.errors is None


@pytest.mark.django_db
def test_nothing_ready_is_seen_as_nothing():
    got = take(lanes("a", "b"), room=5, worker=register())
    assert (True, 0, [], None, []) == (got.known, got.seen, got.lost, got.clock, got.jobs)


@pytest.mark.django_db
def test_no_lane_is_no_job():
    add("a")
    got = take([], room=5, worker=register())
    assert (True, 0, []) == (got.known, got.seen, got.jobs)


@pytest.mark.django_db
def test_a_claim_is_one_statement_whatever_the_number_of_queues(django_assert_num_queries):
    queues = [f"q{n}" for n in range(20)]
    for queue in queues:
        add(queue, 2)
    worker = register()
    with django_assert_num_queries(1):
        got = take(lanes(*queues), room=20, worker=worker)
    assert queues == [job.queue for job in got.jobs]


@pytest.mark.django_db
def test_a_claims_commit_waits_for_no_disk():
    add("a")
    with connection.cursor() as cursor:
        take(lanes("a"), room=1, worker=register())
        cursor.execute("SHOW synchronous_commit")
        assert ("off",) == cursor.fetchone()


# What an operator says of a queue holds at once.


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("paused", "hours", "count"),
    [(True, None, 0), (True, 1, 0), (True, -1, 2), (False, None, 2), (False, 1, 2)],
)
def test_a_paused_queue_is_passed_over_until_the_pause_ends(paused, hours, count):
    until = None if hours is None else timezone.now() + timedelta(hours=hours)
    Queue.objects.create(name="a", paused=paused, paused_until=until)
    add("a", 2)
    got = take(lanes("a"), room=5, worker=register())
    assert (count, count) == (len(got.jobs), got.seen)


@pytest.mark.django_db
@pytest.mark.parametrize(("slots", "held", "count"), [(0, 0, 0), (2, 1, 1), (3, 0, 3), (9, 8, 1)])
def test_an_operators_slots_go_before_the_settings(slots, held, count):
    Queue.objects.create(name="a", slots=slots)
    add("a", 5)
    assert count == len(take(lanes("a", slots=4, held=held), room=5, worker=register()).jobs)


@pytest.mark.django_db
def test_a_word_on_another_backends_queue_of_that_name_means_nothing():
    Queue.objects.create(backend="other", name="a", paused=True, slots=0)
    add("a")
    assert 1 == len(take(lanes("a"), room=5, worker=register()).jobs)


@pytest.mark.django_db
def test_only_this_backends_ready_jobs_of_these_lanes_are_taken():
    now = timezone.now()
    add("a", backend="other")
    add("a", placement=1)
    add("a", suspect=True)
    add("b")
    add("a", state="scheduled", run_after=now)
    for name in ("waiting", "blocked"):
        add("a", state=name)
    add("a", state="dead", finished_at=now)
    got = take(lanes("a"), room=50, worker=register())
    assert (0, []) == (got.seen, got.jobs)


# The claim's own fence.


@pytest.mark.django_db
@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_claim_with_another_epoch_takes_nothing(epoch):
    worker, _ = register(epoch=2), add("a")
    got = take(lanes("a"), room=1, worker=worker, epoch=epoch)
    assert (False, 0, []) == (got.known, got.seen, got.jobs)
    assert not Lease.objects.exists()


@pytest.mark.django_db
def test_a_claim_of_a_worker_whose_row_is_gone_takes_nothing():
    worker, _ = register(), add("a")
    Worker.objects.all().delete()
    got = take(lanes("a"), room=1, worker=worker)
    assert (False, 0, []) == (got.known, got.seen, got.jobs)
    assert not Lease.objects.exists()


# The bound, whatever the plan.

ROWS = """
    INSERT INTO django_jobs_job (task, queue)
    SELECT 'tests.tasks.ok', (ARRAY['a', 'b'])[n %% 2 + 1] FROM generate_series(1, %s) n
"""


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_a_claim_takes_at_most_its_room_whatever_the_plan(transactional_db, mode):
    """With statistics of an empty table, and the planner denied what it would choose."""
    worker = register()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_jobs_job")
        cursor.execute(ROWS, [10_000])
    database = PrivateDatabase("default", purpose="claims")
    for name in ("enable_hashagg", "enable_hashjoin", "enable_sort"):
        database.connection().execute(f"SET {name} = off")
    database.connection().execute(f"SET plan_cache_mode = {mode}")
    got = [take(lanes("a", "b"), room=3, worker=worker, database=database) for _ in range(500)]
    database.close()
    assert [3] * 500 == [len(one.jobs) for one in got]
    assert 1500 == Lease.objects.count() == Job.objects.filter(state="running").count()


@pytest.mark.django_db
def test_what_is_held_and_what_is_claimed_never_exceed_cap_and_slots():
    worker, turns = register(), Turns({"a": 3})
    cap, slots = 7, {"a": 2, "b": 4, "c": 3}
    for queue in slots:
        add(queue, 30)
    held: list[Claimed] = []
    for number in range(40):
        mine = Counter(job.queue for job in held)
        offered = [
            Lane(q, slots[q], mine[q], turns.served(q), turns.cost(q), turn)
            for turn, q in enumerate(slots)
        ]
        got = take(offered, room=cap - len(held), worker=worker)
        turns.advance(got.cards, got.clock or 0)
        held += got.jobs
        assert len(held) == Lease.objects.count() <= cap
        assert all(n <= slots[q] for q, n in Counter(job.queue for job in held).items())
        ended, held = held[: number % 4], held[number % 4 :]
        finish(ended, worker=worker)
    assert set(slots) == set(Job.objects.filter(state="succeeded").values_list("queue", flat=True))


@pytest.mark.django_db
def test_a_suspect_that_its_queue_has_no_slot_for_keeps_out_no_suspect_of_another():
    """Of suspects a pass takes one: it must be one that can be dealt."""
    [urgent], [_] = add("a", priority=1), add("a", suspect=True)
    [other] = add("b", suspect=True)
    offered = [
        Lane(queue, slots, 0, served, 1, turn, suspect=suspect)
        for queue, slots, served, turn in (("a", 1, 0, 0), ("b", 1, 5, 1))
        for suspect in (False, True)
    ]
    got = take(offered, room=5, worker=register())
    assert [urgent, other] == [job.id for job in got.jobs]
