"""Small worlds for the claim: jobs, queues, a worker, and what the planner makes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Max
from django.utils import timezone

from django_jobs.models import Job, Queue, Worker
from django_jobs.operations.claim import Claimed, Pass, claim
from django_jobs.operations.settle import Outcome, Settled, settle
from django_jobs.planner import NO_FLOOR, Card, Lane, deal
from django_jobs.sql import Database, Row, SiteDatabase, load

HERE = SiteDatabase("default")
TASK = "tests.tasks.ok"


class Session:
    """Runs statements on one Django connection that no alias leads to."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.alias = connection.alias
        self.connection = connection

    def fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Run ``sql/<name>.sql``."""
        with self.connection.cursor() as cursor:
            cursor.execute(load(name), params)
            return cursor.fetchall() if cursor.description else []

    def backend_pid(self) -> int:
        """Return the server's process for this connection."""
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return int(cursor.fetchone()[0])


@contextmanager
def undone() -> Iterator[None]:
    """Forget at the end all that was written."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def register(**fields: Any) -> UUID:
    """Add a worker's row; return its id."""
    known = {"backend": "default", "name": "here", "pid": 1, "version": "0", "capacity": 1000}
    return Worker.objects.create(id=uuid4(), **{**known, **fields}).pk


def add(queue: str, count: int = 1, **fields: Any) -> list[int]:
    """Add jobs that are ready unless ``fields`` say otherwise; return their ids."""
    rows = [Job(**{"task": TASK, "queue": queue, **fields}) for _ in range(count)]
    return [job.pk for job in Job.objects.bulk_create(rows)]


def lanes(*queues: str, slots: int = 1000, held: int = 0) -> list[Lane]:
    """Return a lane for each queue, all of the same weight, in turn."""
    return [Lane(queue, slots, held, 0, 1, turn) for turn, queue in enumerate(queues)]


def take(
    offered: Sequence[Lane],
    *,
    room: int,
    worker: UUID,
    epoch: int = 1,
    database: Database = HERE,
) -> Pass:
    """Claim, as the worker ``worker`` does."""
    return claim(
        offered,
        room=room,
        worker=worker,
        epoch=epoch,
        backend="default",
        lease_seconds=30,
        database=database,
    )


def finish(jobs: Iterable[Claimed], *, worker: UUID, **ending: Any) -> list[Settled]:
    """Settle claimed jobs, as succeeded unless ``ending`` says otherwise."""
    ending = {"state": "succeeded", **ending}
    outcomes = [Outcome(lease=job.lease, job=job.id, **ending) for job in jobs]
    return settle(outcomes, worker=worker, database=HERE)


def planned(offered: Sequence[Lane], *, room: int) -> list[Card]:
    """Return what the planner deals from what the tables hold now."""
    said = {queue.name: queue for queue in Queue.objects.filter(backend="default")}
    now = timezone.now()
    usable = []
    for lane in offered:
        word = said.get(lane.queue, Queue(name=lane.queue, paused=False))
        if word.paused and (word.paused_until is None or word.paused_until > now):
            continue
        usable.append(lane if word.slots is None else replace(lane, slots=word.slots))
    return deal(usable, _ready_rows(usable), room)


def _ready_rows(offered: Sequence[Lane]) -> dict[Lane, list[tuple[int, int]]]:
    ranges = defaultdict(list)
    for job in Job.objects.filter(backend="default", state="ready"):
        ranges[job.queue, job.placement, job.suspect].append((-job.priority, job.pk))
    return {
        lane: sorted(
            row for row in ranges[lane.queue, lane.placement, lane.suspect] if row >= lane.floor
        )
        for lane in offered
    }


# Random worlds.

NAMES = ("default", "mail", "imports", "photos", "a b", "c'd")


def random_lanes(random: Random) -> list[Lane]:
    """Return what a worker with some history might offer."""
    queues = random.sample(NAMES, random.randint(1, 5))
    holds_suspect = random.random() < 0.3
    found: list[Lane] = []
    for turn, queue in enumerate(queues):
        placements = random.sample(range(4), random.choice((1, 1, 2, 4)))
        base = Lane(
            queue=queue,
            slots=random.randint(1, 6),
            held=random.choice((0, 0, 1, 3)),
            served=random.choice((0, 0, random.randint(0, 9), random.randint(0, 10**14))),
            cost=random.choice((1, 1, 2, 3, 6, 10**12)),
            turn=turn,
        )
        found += [
            replace(
                base,
                placement=placement,
                suspect=suspect,
                scarce=placement == 3,
                floor=random.choice((NO_FLOOR, NO_FLOOR, _random_floor(random))),
            )
            for placement in placements
            for suspect in ((False,) if holds_suspect else (False, True))
        ]
    random.shuffle(found)
    return found


def _random_floor(random: Random) -> tuple[int, int]:
    """Return a place among the jobs that there are, or will be, or beside them."""
    newest = Job.objects.aggregate(newest=Max("pk"))["newest"] or 0
    return random.choice((-5, -1, 0, 0, 0, 3)), newest - random.randint(-5, 60)


def random_queues(random: Random) -> None:
    """Let an operator have paused some queues and set the slots of others."""
    hour = timedelta(hours=1)
    for name in NAMES:
        for backend in ("default", "other"):
            if random.random() < 0.4:
                Queue.objects.create(
                    backend=backend,
                    name=name,
                    paused=random.random() < 0.4,
                    paused_until=random.choice(
                        (None, timezone.now() - hour, timezone.now() + hour),
                    ),
                    slots=random.choice((None, None, random.randint(0, 6))),
                )


def random_jobs(random: Random, most: int = 60) -> None:
    """Add jobs of all kinds in one random order; only some may be claimed."""
    Job.objects.bulk_create([_random_job(random) for _ in range(random.randint(0, most))])


def _random_job(random: Random) -> Job:
    state = "ready" if random.random() < 0.8 else random.choice(("scheduled", "dead", "running"))
    now = timezone.now()
    return Job(
        task=TASK,
        backend="default" if random.random() < 0.9 else "other",
        queue=random.choice(NAMES),
        priority=random.choice((0, 0, 0, random.randint(-100, 100))),
        placement=random.choice((0, 0, 1, 2, 3)),
        suspect=random.random() < 0.2,
        state=state,
        attempt=0 if state == "ready" else 1,
        run_after=now if state == "scheduled" else None,
        finished_at=now if state == "dead" else None,
    )
