"""Jobs under limits, and what tests ask of their permits."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from django.db import connection

from django_jobs.models import Job, Lease, Limit
from django_jobs.operations.claim import Claimed, Pass, claim
from django_jobs.operations.follow import follow, wake
from django_jobs.operations.settle import Outcome
from django_jobs.planner import Turns
from django_jobs.worker.capacity import Capacity
from tests.operations.desk import LEASE, Desk, jobs, succeeded
from tests.processes import wait_for

KEY = "customer:7"
EVERY = 0.6  # 100 a minute


def limited(count: int = 1, *, key: str = KEY, size: int | None = 2, **columns: Any) -> list[int]:
    """Insert ready jobs of one key."""
    return jobs(count, limit_key=key, limit_size=size, **columns)


def rated(count: int, *, burst: int, every: float = EVERY, **columns: Any) -> list[int]:
    """Insert ready jobs of one key with a rate, and no size unless ``columns`` give one."""
    return limited(count, **{"size": None, "limit_every": every, "limit_burst": burst, **columns})


def take(desk: Desk, *, room: int = 50) -> Pass:
    """Claim, and return all that the claim did."""
    capacity = Capacity(cap=50, slots={}, default_slots=50)
    return claim(
        capacity.lanes(["default"], Turns({})),
        room=room,
        worker=desk.id,
        epoch=1,
        backend="default",
        lease_seconds=LEASE,
        database=desk.database,
    )


def end(desk: Desk, *ended: Claimed) -> None:
    """Settle as succeeded, then wake what waited."""
    end_as(desk, *(succeeded(job) for job in ended))


def end_as(desk: Desk, *outcomes: Outcome) -> None:
    """Settle, then wake what waited, as the loop does."""
    follow(desk.settle(*outcomes), worker=desk.id, database=desk.database)


def woken(desk: Desk, key: str = KEY) -> int:
    """Wake what waits for the key; return how many jobs."""
    return wake([key], worker=desk.id, database=desk.database)


def limit(key: str = KEY) -> Limit:
    """The key's row as it is now."""
    return Limit.objects.get(pk=key)


def held(key: str = KEY) -> int:
    """How many leases hold a permit of the key."""
    return Lease.objects.filter(limit_key=key).count()


def states(key: str = KEY) -> Counter[str]:
    """How many jobs of the key are in each state."""
    return Counter(Job.objects.filter(limit_key=key).values_list("state", flat=True))


def in_state(state: str) -> list[int]:
    """The ids of all jobs in one state, in order."""
    return list(Job.objects.filter(state=state).order_by("id").values_list("id", flat=True))


def versions(table: str) -> list[Any]:
    """Which transactions wrote the rows of a table: a row that is written again shows."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ctid::text, xmin::text FROM django_jobs_{table} ORDER BY 1")
        found: list[Any] = cursor.fetchall()
        return found


class opened:  # noqa: N801 - used as a function
    """A transaction on a desk's connection that is committed when the test says so."""

    def __init__(self, desk: Desk) -> None:
        self._raw = desk.open()
        self._raw.execute("BEGIN")
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Commit."""
        if self._is_open:
            self._is_open = False
            self._raw.execute("COMMIT")

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def meanwhile(desk: Desk, call: Callable[[], Any]) -> Iterator[list[Any]]:
    """Let another worker wait for a lock around the body; its answer is there after it.

    In the body that worker waits. What it waits for must be let go at its end.
    """
    answers: list[Any] = []
    raw = desk.open()
    raw.execute("SET lock_timeout = 0")
    pid = raw.info.backend_pid
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    try:
        wait_for(lambda: bool(answers) or _waits(pid), what="it waits for no lock")
        assert not answers
        yield answers
    finally:
        thread.join(20)


def _waits(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid])
        return bool(cursor.fetchone()[0])
