"""Real workers never run more jobs of a key at once than its size."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Process
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
KEY: dict[str, Any] = {"limit_key": "customer:7", "limit_size": 3}
# DJANGO_JOBS_LONG=1 has as many workers and jobs as one would have on a bad day.
LONG = bool(os.environ.get("DJANGO_JOBS_LONG"))
WORKERS, JOBS, SECONDS, SIZE = (12, 300, 0.05, 3) if LONG else (4, 60, 0.05, 3)


def spans(fleet: Fleet) -> list[tuple[float, float]]:
    """When each run of the task began and ended, by the database's clock."""
    return fleet.rows(
        "SELECT extract(epoch FROM at)::float8, extract(epoch FROM ended_at)::float8"
        " FROM ledger_mark WHERE key = 'span' ORDER BY at"
    )


def overlapping(found: list[tuple[float, float]]) -> int:
    """How many ran at once, at most."""
    return max(sum(begun <= at < ended for begun, ended in found) for at, _ in found)


def room(fleet: Fleet) -> tuple[int, int]:
    """Permits in use, and jobs that wait for one."""
    row: tuple[int, int] = fleet.value(
        "SELECT (SELECT coalesce(sum(in_use), 0) FROM django_jobs_limit)::int,"
        " (SELECT count(*) FROM django_jobs_job WHERE state = 'blocked')::int"
    )
    return row


@pytest.mark.timeout(300)
def test_many_workers_run_no_more_than_the_size_at_once_and_waste_no_place(fleet: Fleet):
    workers = [fleet.started("--lease", "30") for _ in range(WORKERS)]
    fleet.put("tests.worker.tasks.span", SECONDS, count=JOBS, **KEY)
    fleet.ring()
    fleet.wait_for_all(seconds=240 if LONG else 60)
    found = spans(fleet)
    whole = max(ended for _, ended in found) - min(begun for begun, _ in found)
    print(f"{JOBS} jobs in {whole:.2f} s by {WORKERS}")  # noqa: T201 - the figure of a long run
    assert (JOBS, SIZE) == (len(found), overlapping(found))
    assert (0, 0) == room(fleet)
    assert {1} == set(fleet.rows("SELECT attempt FROM django_jobs_job"))
    assert [0] * WORKERS == [fleet.stop(worker) for worker in workers]
    assert [] == fleet.lines("ERROR") + fleet.lines("Traceback")
    if LONG:
        assert whole <= 1.3 * JOBS * SECONDS / SIZE


def blocked_beside_a_run(fleet: Fleet, key: str, path: Path, **columns: Any) -> int:
    """Let a job run that holds the key's only place, and another one wait for it."""
    limit: dict[str, Any] = {"limit_key": key, "limit_size": 1}
    fleet.put("tests.worker.tasks.until", "holds", str(path), **limit)
    fleet.ring()
    fleet.wait_for_run("holds")
    waits = fleet.put_one("tests.tasks.mark", "waited", **limit, **columns)
    fleet.ring()
    fleet.wait_for_state(waits, "blocked")
    return waits


def started_after(fleet: Fleet, pk: int) -> float:
    """How long after the end of the run before it a job started, in seconds."""
    return float(
        fleet.value(
            "SELECT extract(epoch FROM j.started_at - d.finished_at) FROM django_jobs_job j,"
            " django_jobs_job d WHERE j.id = %s AND d.id <> j.id",
            pk,
        )
    )


def test_a_worker_that_ends_a_run_starts_who_waited_for_its_place_at_once(fleet: Fleet, end: End):
    path = end()
    worker = fleet.idle(**fleet.settings(poll_floor_seconds=8.0))
    waits = blocked_beside_a_run(fleet, "k", path)
    fleet.wait("SELECT bool_and(idle) FROM django_jobs_worker")
    path.touch()
    fleet.wait_for_state(waits, "succeeded")
    assert started_after(fleet, waits) < 2
    assert 0 == fleet.stop(worker)


def test_another_worker_is_rung_for_who_waited_if_it_alone_serves_the_queue(
    fleet: Fleet, end: End
):
    path = end()
    one = fleet.idle("--queue", "default")
    two = fleet.idle("--queue", "mail", **fleet.settings(poll_floor_seconds=8.0))
    waits = blocked_beside_a_run(fleet, "k", path, queue="default")
    fleet.rows("UPDATE django_jobs_job SET queue = 'mail' WHERE id = %s", waits)
    fleet.wait("SELECT bool_and(idle) FROM django_jobs_worker")
    path.touch()
    fleet.wait_for_state(waits, "succeeded")
    assert started_after(fleet, waits) < 3
    assert [0, 0] == [fleet.stop(one), fleet.stop(two)]


def test_a_worker_that_dies_gives_its_places_back(fleet: Fleet, end: End):
    path = end()
    one: Process = fleet.idle("--lease", "2")
    waits = blocked_beside_a_run(fleet, "k", path)
    two = fleet.started("--lease", "2")
    one.kill()
    path.touch()
    fleet.wait_for_state(waits, "succeeded")
    fleet.wait_for_all()
    assert (0, 0) == room(fleet)
    assert 0 == fleet.stop(two)


def test_a_crash_between_an_end_and_its_wake_costs_seconds(fleet: Fleet):
    """Jobs are blocked, their key has room, and nobody will say so."""
    fleet.rows("INSERT INTO django_jobs_limit (key, size) VALUES ('k', 1)")
    [pk] = fleet.put("tests.tasks.ok", state="blocked", limit_key="k", limit_size=1)
    worker = fleet.started()
    fleet.wait_for_state(pk, "succeeded", seconds=6)
    assert 0 == fleet.stop(worker)


def test_a_thousand_jobs_of_a_full_key_hold_up_no_free_job(fleet: Fleet, end: End):
    """Passes that only block jobs follow each other at once."""
    path = end()
    worker = fleet.idle("--max-in-flight", "6")
    blocked_beside_a_run(fleet, "k", path)
    fleet.put("tests.tasks.ok", count=1000, limit_key="k", limit_size=1)
    free = fleet.put_one("tests.tasks.ok")
    fleet.ring()
    fleet.wait_for_state(free, "succeeded")
    span = (
        "SELECT extract(epoch FROM j.started_at - j.enqueued_at) FROM django_jobs_job j"
        " WHERE id = %s"
    )
    assert fleet.value(span, free) < 3
    path.touch()
    fleet.rows("DELETE FROM django_jobs_job WHERE state = 'blocked'")
    assert 0 == fleet.stop(worker)
