"""fill N | enqueue COUNT SEED | pairs COUNT | clients COUNT"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from threading import Thread
from time import perf_counter

import django
from django.db import transaction

from benchmarks.sites import clocked


def fill(count: int) -> None:
    """Enqueue no-op jobs in one transaction; print the last id."""
    from benchmarks.sites.ours.jobs import noop

    with transaction.atomic():
        ids = noop.enqueue_many(noop.s() for _ in range(count))
    print(ids[-1])


def enqueue(count: int, seed: int) -> None:
    """Enqueue at random moments."""
    from benchmarks.sites.ours.jobs import clock

    clocked.run(lambda: clock.enqueue().id, count=count, seed=seed)


def pairs(count: int) -> None:
    """Time an enqueue and a create, by turns, in autocommit; print both as JSON."""
    from benchmarks.sites.ours.jobs import noop
    from benchmarks.sites.ours.models import Twin

    def create() -> None:
        Twin.objects.create(**columns)

    columns = _columns()
    times: dict[str, list[float]] = {"enqueue": [], "create": []}
    calls = [("enqueue", noop.enqueue), ("create", create)]
    for number in range(count + 20):
        calls.reverse()  # neither always follows the other's flush
        for name, call in calls:
            before = perf_counter()
            call()
            if number >= 20:
                times[name].append(perf_counter() - before)
    print(json.dumps(times))


def clients(count: int) -> None:
    """Commit one enqueue after the other in each of ``count`` sessions, until killed."""
    from benchmarks.sites.ours.jobs import noop

    def commit() -> None:
        while True:
            noop.enqueue()

    threads = [Thread(target=commit) for _ in range(count)]
    for thread in threads:
        thread.start()


def _columns() -> dict[str, object]:
    """Return what an enqueue writes itself; the database's defaults do the rest."""
    from django_jobs.states import JobState

    return {
        "backend": "default",
        "task": "benchmarks.sites.ours.jobs.noop",
        "state": JobState.READY,
        "queue": "default",
        "priority": 0,
        "args": [],
        "kwargs": {},
        "max_attempts": 3,
        "backoff": "exponential",
        "backoff_base": 2.0,
        "backoff_cap": 600.0,
        "backoff_jitter": 0.25,
        "keep_dead": True,
        "idempotent": True,
    }


if __name__ == "__main__":
    django.setup()
    verbs: dict[str, Callable[..., None]] = {
        "fill": fill,
        "enqueue": enqueue,
        "pairs": pairs,
        "clients": clients,
    }
    verbs[sys.argv[1]](*map(int, sys.argv[2:]))
