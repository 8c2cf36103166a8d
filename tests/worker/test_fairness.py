"""Real workers share their time between queues, and never hold more than their cap."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from django_jobs.models import Job, Lease, Queue
from django_jobs.planner import NO_FLOOR, Turns
from django_jobs.sql import array, load
from django_jobs.worker.capacity import Capacity
from tests.ledger.models import Mark
from tests.processes import JobWorkers, Process, wait_for
from tests.tasks import mark, nap, ok
from tests.worlds import add, finish, lanes, register, take

pytestmark = [pytest.mark.subprocess]


def enqueue(queues: Iterable[str]) -> None:
    """Enqueue a job for each, which notes its queue's name when it runs."""
    tasks = {queue: mark.using(queue_name=queue) for queue in set(queues)}
    mark.enqueue_many([tasks[queue].s(queue) for queue in queues])


def run_all(jobworker: JobWorkers, *flags: str) -> Process:
    """Let one worker run everything."""
    worker = jobworker("--once", *flags)
    assert 0 == worker.wait(60), worker.log()
    assert not Job.objects.exclude(state="succeeded").exists()
    return worker


def ran() -> list[str]:
    """Return the queues of the runs in the order in which they started."""
    return list(Mark.objects.order_by("id").values_list("key", flat=True))


def windows(items: Sequence[str], size: int) -> list[Counter[str]]:
    return [Counter(items[start : start + size]) for start in range(len(items) - size + 1)]


def test_three_queues_at_cap_1_run_in_turn(jobworker):
    enqueue("a" * 60 + "b" * 60 + "c" * 60)
    run_all(jobworker, "--max-in-flight", "1", "--queue", "a", "--queue", "b", "--queue", "c")
    assert list("abc") * 60 == ran()


def test_weights_3_to_1_at_cap_1_hold_in_every_window_of_4(jobworker):
    enqueue("b" * 100 + "a" * 300)
    run_all(jobworker, "--max-in-flight", "1", "--queue", "a:3", "--queue", "b:1")
    assert [{"a": 3, "b": 1}] * 397 == windows(ran(), 4)


def test_three_full_queues_at_cap_5_are_claimed_in_turn(jobworker):
    """Whatever the room of each pass was; leases are numbered in the order of the claim."""
    enqueue("c" * 50 + "b" * 50 + "a" * 50)
    run_all(jobworker, "--max-in-flight", "5", "--queue", "a", "--queue", "b", "--queue", "c")
    assert list("abc") * 50 == list(Mark.objects.order_by("lease").values_list("key", flat=True))


@pytest.mark.django_db
def test_room_5_over_three_full_queues_is_2_2_1_and_goes_on_from_there():
    """The same with the claim itself, thirty passes of room 5."""
    worker, turns = register(), Turns({})
    capacity = Capacity(cap=5, slots={}, default_slots=5)
    for queue in "abc":
        add(queue, 60)
    total: Counter[str] = Counter()
    for _ in range(30):
        got = take(capacity.lanes("abc", turns), room=capacity.room(), worker=worker)
        turns.advance(got.cards, got.clock or 0)
        shares = Counter(job.queue for job in got.jobs)
        assert [1, 2, 2] == sorted(shares.values())
        total += shares
        assert max(total.values()) - min(total.values()) <= 1
        finish(got.jobs, worker=worker)


def test_a_queue_whose_only_job_is_locked_stops_no_other_queue(jobworker):
    """Somebody's open transaction holds the job of the queue whose turn is first."""
    enqueue("a")
    enqueue("bbbccc")
    flags = ("--max-in-flight", "1", "--queue", "a", "--queue", "b", "--queue", "c")
    with transaction.atomic():
        list(Job.objects.filter(queue="a").select_for_update())
        worker = jobworker(*flags)
        wait_for(lambda: len(ran()) == 6, what=worker.log())
        assert list("bcbcbc") == ran()
    wait_for(lambda: "a" in ran(), what=worker.log())


# The cap, seen by the database.

WATCH = """
CREATE SEQUENCE caps_checked;
CREATE FUNCTION check_cap() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken record;
BEGIN
    PERFORM nextval('caps_checked');
    SELECT l.worker, count(*) AS n, w.capacity INTO broken
    FROM django_jobs_lease l LEFT JOIN django_jobs_worker w ON w.id = l.worker
    WHERE l.worker IN (SELECT worker FROM made) GROUP BY l.worker, w.capacity
    HAVING count(*) > coalesce(w.capacity, 0);
    IF FOUND THEN
        RAISE EXCEPTION 'cap broken: % leases, cap %', broken.n, broken.capacity;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER check_cap AFTER INSERT ON django_jobs_lease
    REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION check_cap();
"""
FORGET = """
DROP TRIGGER check_cap ON django_jobs_lease;
DROP FUNCTION check_cap;
DROP SEQUENCE caps_checked;
"""


@pytest.fixture
def watched_cap(transactional_db: None) -> Iterator[None]:
    """Let every INSERT of leases fail that leaves a worker with more than its cap."""
    with connection.cursor() as cursor:
        cursor.execute(WATCH)
        yield
        cursor.execute(FORGET)


def checks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM caps_checked")
        return int(cursor.fetchone()[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cap", "workers"),
    [(1, 1), (6, 1), (6, 3), (50, 1)],
)
def test_no_worker_ever_holds_more_than_its_cap(watched_cap, jobworker, cap, workers):
    """Over two queues, each of which could fill it alone."""
    jobs = 10_000 if cap > 1 else 2_000
    for queue in "ab":
        Queue.objects.create(name=queue, slots=cap)
        ok.enqueue_many([ok.using(queue_name=queue).s(1)] * (jobs // 2))
    flags = ("--once", "--max-in-flight", str(cap), "--queue", "a", "--queue", "b")
    started = [jobworker(*flags) for _ in range(workers)]
    for worker in started:
        assert 0 == worker.wait(90), worker.log()
        assert "cap broken" not in worker.log()
        assert "pass failed" not in worker.log()
    assert jobs == Job.objects.filter(state="succeeded", attempt=1).count()
    assert not Lease.objects.exists()
    assert checks() >= jobs / cap


def test_the_watch_over_the_cap_sees_one_lease_too_many(watched_cap):
    add("a", 3)
    worker = register(capacity=2)
    with pytest.raises(DatabaseError, match="cap broken: 3 leases, cap 2"), transaction.atomic():
        take(lanes("a"), room=3, worker=worker)
    assert 2 == len(take(lanes("a"), room=2, worker=worker).jobs)


# A long queue that may not run.

BACKLOG = """
INSERT INTO django_jobs_job (task, queue)
SELECT 'tests.tasks.ok', 'a' FROM generate_series(1, 300000)
"""


def test_a_long_queue_at_its_slots_costs_the_claim_nothing(jobworker):
    Queue.objects.create(name="a", slots=1)
    nap.using(queue_name="a", priority=9).enqueue(60)
    worker = jobworker("--max-in-flight", "6", "--queue", "a", "--queue", "b")
    wait_for(lambda: Job.objects.filter(state="running").exists(), what=worker.log())
    with connection.cursor() as cursor:
        cursor.execute(BACKLOG)
    enqueue("b" * 10)
    wait_for(lambda: len(ran()) == 10, seconds=10, what=worker.log())
    assert 1 == Job.objects.filter(queue="a").exclude(state="ready").count()
    worker.kill()
    plan = explained_claim(slots={"a": 1, "b": 8}, held={"a": 1})
    assert blocks(plan) < 100
    assert most_rows(plan) < 100


def test_a_long_queue_costs_the_claim_what_it_takes(transactional_db):
    with connection.cursor() as cursor:
        cursor.execute(BACKLOG)
    plan = explained_claim(slots={"a": 8, "b": 8}, held={})
    assert blocks(plan) < 500
    assert most_rows(plan) < 100


CHURN = """
INSERT INTO django_jobs_job (task, queue)
SELECT 'tests.tasks.ok', 'a' FROM generate_series(1, 20100);
UPDATE django_jobs_job SET state = 'succeeded', finished_at = now() WHERE id IN (
    SELECT id FROM django_jobs_job WHERE queue = 'a' ORDER BY id LIMIT 20000)
"""


def test_what_has_gone_is_walked_from_the_start_and_not_from_a_floor(second_connection):
    """An open transaction keeps its entries in the index."""
    with second_connection.cursor() as reader, connection.cursor() as cursor:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM django_jobs_job")
        for statement in CHURN.split(";"):
            cursor.execute(statement)
        first = Job.objects.filter(state="ready").earliest("pk").pk
        walked, short = (
            explained_claim(slots={"a": 8}, held={}, floor=floor)
            for floor in (NO_FLOOR, (0, first))
        )
        reader.execute("ROLLBACK")
    assert blocks(short) < 300
    assert blocks(walked) > 1000
    assert most_rows(short) == most_rows(walked) < 100


def blocks(plan: dict[str, Any]) -> int:
    """Return how many pages a plan looked at."""
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def explained_claim(
    *, slots: dict[str, int], held: dict[str, int], floor: tuple[int, int] = NO_FLOOR
) -> dict[str, Any]:
    """Claim up to six jobs, undo it, and return how it was done."""
    queues = list(slots)
    params: dict[str, Any] = {
        "worker": register(), "epoch": 1, "backend": "default", "room": 6, "lease": 30.0,
        "queues": queues, "placements": array(0 for _ in queues),
        "suspects": array(False for _ in queues), "alones": array(False for _ in queues),
        "slots": array(slots.values()),
        "held": array(held.get(queue, 0) for queue in queues),
        "served": array(0 for _ in queues), "costs": array(1 for _ in queues),
        "turns": array(range(len(queues))),
        "floor_orders": array(floor[0] for _ in queues),
        "floor_ids": array(floor[1] for _ in queues),
    }  # fmt: skip
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {load('claim')}", params)
        [found] = cursor.fetchone()
        transaction.set_rollback(True)
    plan: dict[str, Any] = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def most_rows(plan: dict[str, Any]) -> int:
    """Return how many rows the busiest part of a plan touched."""
    removed = sum(n for key, n in plan.items() if key.startswith("Rows Removed"))
    here = int((plan["Actual Rows"] + removed) * plan["Actual Loops"])
    return max([here, *(most_rows(child) for child in plan.get("Plans", ()))])
