"""``explain`` says that a host can take a job exactly when that host's claim takes it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random, SystemRandom
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from django_jobs.models import Job, Lease, Limit, Placement
from django_jobs.operations.explain import explain, explain_queue
from django_jobs.operations.explain.explanation import Situation
from django_jobs.operations.foresee import never
from django_jobs.operations.place import columns_of
from django_jobs.placement import RECORDED, Host, Needs, Reason, Requires
from django_jobs.planner import Turns
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.hosting import Hosting
from tests.worlds import HERE, add, random_queues, register, take, undone

# DJANGO_JOBS_WORLDS=2000 tries more of them, DJANGO_JOBS_SEED repeats a run that failed.
WORLDS = int(os.environ.get("DJANGO_JOBS_WORLDS", "200"))
SEED = int(os.environ.get("DJANGO_JOBS_SEED") or SystemRandom().randrange(10**9))
HOUR = timedelta(hours=1)
NEVER = {Reason.QUEUE_NOT_SERVED, *RECORDED}

QUEUES = ("default", "mail", "imports", "photos")
LABELS = ("gpu", "ssd", "os:linux", "arch:arm64", "region:eu")
TASKS = ("tests.tasks.ok", "tests.tasks.boom", "shop.of.a.newer.deploy")
KEYS = ("feeds:acme", "feeds:bolt", "smtp", "nobody claimed it")
ITSELF = {"limit", "not expired"}  # checks that ask nothing of a host
AMOUNTS = (0.1, 0.3, 1, 2, 2.5, 1000)

pytestmark = pytest.mark.django_db


@dataclass
class Member:
    """A worker's row and what its process would know."""

    id: UUID
    health: str
    queues: list[str]
    capacity: Capacity

    def takes(self, job: int) -> bool:
        """Claim as its process would, and forget it; tell whether it got the job."""
        room = self.capacity.room()
        lanes = self.capacity.lanes(self.queues, Turns({}))
        if room <= 0 or not lanes:
            return False
        with undone():
            return job in [each.id for each in take(lanes, room=room, worker=self.id).jobs]


def some(random: Random, of: Sequence[Any], most: int) -> list[Any]:
    return random.sample(of, random.randint(0, most))


def random_needs(random: Random, hosts: Sequence[str]) -> Needs:
    """Return what a job asks; mostly little, else nothing would ever fit."""
    return Needs(
        requires=Requires(
            host=random.choice(hosts) if random.random() < 0.2 else None,
            labels=frozenset(some(random, LABELS, random.choice((0, 1, 1, 2)))),
            resources={
                name: random.choice(AMOUNTS) for name in some(random, ("cpus", "memory_mb"), 1)
            },
        ),
        task=random.choice(TASKS) if random.random() < 0.25 else None,
    )


def random_placements(random: Random, hosts: Sequence[str]) -> dict[int, Needs]:
    found = {0: Needs()}
    for _ in range(random.randint(1, 4)):
        needs = random_needs(random, hosts)
        if not needs.is_anywhere:
            columns = {**columns_of(needs), "resources": dict(needs.amounts), "task": needs.task}
            found[Placement.objects.create(**columns).pk] = needs
    return found


def random_health(random: Random) -> tuple[str, dict[str, Any]]:
    """Return how a worker is, and the columns that say so."""
    now, renew = timezone.now(), random.choice((2.0, 10.0, 40.0))
    columns = {"renew_seconds": renew}
    if random.random() < 0.1:
        return "draining", {**columns, "state": "draining"}
    if random.random() < 0.8:
        return "live", columns
    health, missed = random.choice((("late", 2.5), ("gone", 4)))
    column = random.choice(("seen_at", "loop_at"))
    return health, {**columns, column: now - timedelta(seconds=missed * renew)}


def random_worker(random: Random, name: str, placements: dict[int, Needs]) -> Member:
    served = random.choice((None, some(random, QUEUES, 4), list(QUEUES)))
    labels = some(random, LABELS, 5)
    resources = {name: random.choice(AMOUNTS) for name in some(random, ("cpus", "memory_mb"), 2)}
    resources = {name: amount * random.choice((1, 1, 3)) for name, amount in resources.items()}
    known = frozenset(some(random, TASKS, 3))
    cap = random.randint(1, 5)
    slots = {queue: min(random.randint(1, 3), cap) for queue in some(random, QUEUES, 2)}
    default_slots = min(random.choice((1, 2, 8)), cap)
    aliases = some(random, ("box", "rack"), 1)
    health, columns = random_health(random)
    pk = register(
        name=name, queues=served, labels=labels, resources=resources, capacity=cap, slots=slots,
        default_slots=default_slots, aliases=aliases, **columns,
    )  # fmt: skip
    host = Host(
        names={name, *aliases}, labels=labels, resources=resources, knows=known.__contains__
    )
    hosting = Hosting(host, name=name, worker=pk)
    hosting.refresh(HERE)
    capacity = Capacity(cap=cap, slots=slots, default_slots=default_slots, hosting=hosting)
    for _ in range(random.choice((0, 0, 1, 2, cap))):
        hold(random, pk, capacity, placements)
    return Member(pk, health, list(QUEUES) if served is None else served, capacity)


def hold(random: Random, worker: UUID, capacity: Capacity, placements: dict[int, Needs]) -> None:
    """Let the worker run one more job, in its rows and in its process."""
    queue, placement = random.choice(QUEUES), random.choice((0, *placements))
    suspect = random.random() < 0.15
    [job] = add(queue, placement=placement, suspect=suspect, state="running", attempt=1)
    until = timezone.now() + timedelta(minutes=1)
    lease = Lease.objects.create(job_id=job, worker=worker, expires_at=until)
    run: Any = SimpleNamespace(
        job=SimpleNamespace(lease=lease.pk, queue=queue, placement=placement, suspect=suspect)
    )
    capacity.take([run])


@contextmanager
def alone(job: int) -> Iterator[None]:
    """Set all other ready jobs aside."""
    with undone():
        Job.objects.filter(state="ready").exclude(pk=job).update(state="waiting")
        yield


@contextmanager
def world(number: int) -> Iterator[tuple[Random, list[Member], dict[int, Needs]]]:
    """Make a world, and forget its rows at the end."""
    random = Random(f"{SEED} {number}")
    try:
        with undone():
            random_queues(random)
            random_limits(random)
            names = [f"web-{n}" for n in range(random.randint(1, 4))]
            placements = random_placements(random, [*names, "box", "rack", "nowhere"])
            members = [random_worker(random, name, placements) for name in names]
            yield random, members, placements
    except AssertionError as error:
        error.add_note(f"world {number} of DJANGO_JOBS_SEED={SEED}")
        raise


def random_limits(random: Random) -> None:
    """Let keys be full, have room, have no places, or an operator's size."""
    for key in KEYS[:-1]:
        later = timedelta(seconds=random.choice((-90, 30, 90, 210)))
        Limit.objects.create(
            key=key,
            size=random.choice((None, 0, 1, 2)),
            override=random.choice((None, None, None, 0, 1, 3)),
            in_use=random.choice((0, 0, 1, 2, 5)),
            next_at=random.choice((None, timezone.now() + later)),
        )


def random_limit(random: Random) -> dict[str, Any]:
    """Return what a job asks of a key; half of them ask nothing."""
    now = timezone.now()
    if random.random() < 0.5:
        return {}
    reserved = random.choice((None, now - timedelta(seconds=5), now - timedelta(seconds=60)))
    return {
        "limit_key": random.choice(KEYS),
        "limit_size": random.choice((None, 0, 1, 2, 3)),
        "limit_every": random.choice((None, None, 60.0)),
        "limit_burst": random.choice((1, 2, 3)),
        "limit_discard": random.random() < 0.3,
        "reserved_at": reserved,
        "expires_at": random.choice((None, None, now - HOUR, now + HOUR)),
        "started_at": random.choice((None, None, now - HOUR)),
    }


def random_ready(random: Random, placements: dict[int, Needs]) -> list[int]:
    return [
        add(
            random.choice(QUEUES),
            placement=random.choice((0, *placements)),
            suspect=random.random() < 0.2,
            priority=random.randint(-1, 1),
            **random_limit(random),
        )[0]
        for _ in range(random.randint(2, 5))
    ]


@pytest.mark.slow
@pytest.mark.timeout(120 + WORLDS)
def test_a_host_can_take_a_job_exactly_when_its_claim_takes_it():
    print(f"DJANGO_JOBS_SEED={SEED}")  # noqa: T201 - shown when the test fails
    claimable = 0
    for number in range(WORLDS):
        with world(number) as (random, members, placements):
            told = [_agrees(job, members) for job in random_ready(random, placements)]
            claimable += any(told)
    assert claimable >= WORLDS / 3, "too few worlds in which a job could be claimed prove little"


def _agrees(job: int, members: Sequence[Member]) -> bool:
    """Hold what is said of one job against every worker's claim; tell whether one takes it."""
    with alone(job):
        told = explain(job, database="default")
        lines = {line.worker: line for line in told.hosts}
        waits = any(check.name in ITSELF and "block" in check.result for check in told.checks)
        takers = []
        for member in members:
            line = lines[member.id]
            assert member.health == line.health
            if member.health == "live":
                assert member.takes(job) == (line.reason is None and not waits), (line, told)
            else:
                assert line.reason is not None
            takers += [line.label] if line.reason is None and not waits else []
    assert (told.verdict.situation == Situation.READY) == bool(takers), told.verdict
    if takers:
        assert told.verdict.facts["worker"] in takers
        assert {"pass"} == {check.result for check in told.checks}
    else:
        assert 1 == [check.result for check in told.checks].count("blocks")
    return bool(takers)


@pytest.mark.timeout(120 + WORLDS)
def test_a_queue_is_ready_exactly_when_a_claim_takes_a_job_that_asks_nothing():
    for number in range(WORLDS // 4):
        with world(number) as (random, members, _):
            queue = random.choice(QUEUES)
            [job] = add(queue)
            told = explain_queue("default", queue, database="default")
            takes = [each.takes(job) for each in members if each.health == "live"]
            assert any(takes) == (told.verdict.situation == Situation.READY), told


@pytest.mark.timeout(120 + WORLDS)
def test_nobody_is_foreseen_exactly_when_no_live_worker_could_ever_take_it():
    for number in range(WORLDS // 4):
        with world(number) as (random, _, placements):
            placement = random.choice(list(placements))
            needs = Needs(requires=placements[placement].requires)
            [job] = add(random.choice(QUEUES), placement=placement)
            hosts = explain(job, database="default").hosts
            live = [
                line.reasons - {Reason.UNKNOWN_TASK} for line in hosts if line.health == "live"
            ]
            ever = not live or any(not reasons & NEVER for reasons in live)
            queue = Job.objects.get(pk=job).queue
            told = never(needs, queue, backend="default", database="default")
            assert ever == (told is None), told
