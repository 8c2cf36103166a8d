"""Atomic tasks in real workers, which are killed, cut off and left without an answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.processes import Process, wait_for
from tests.proxy import Proxy
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]

TASKS = "tests.worker.atomic_tasks"
LONG = os.environ.get("DJANGO_JOBS_LONG") == "1"
JOBS = 1000
KILLS = 60 if LONG else 8  # at least
SLOW = 0.1 if LONG else 0.04  # seconds that a body takes
BEGUN = 32  # by a worker that is killed, of which it holds 16
CUT_OFF = 20  # bodies, below which the test has shown nothing


def put(fleet: Fleet, count: int) -> list[int]:
    return fleet.put(f"{TASKS}.insert", SLOW, count=count, max_attempts=100)


def worker(fleet: Fleet) -> Process:
    return fleet.worker("--lease", "2", "--max-in-flight", "16", "--queue", "default")


def begun_by(fleet: Fleet, process: Process) -> int:
    text = "SELECT count(*) FROM ledger_mark WHERE key = 'begun' AND pid = %s"
    return int(fleet.value(text, process.pid))


@pytest.mark.slow
@pytest.mark.timeout(600 if LONG else 120)
def test_a_thousand_jobs_insert_a_thousand_rows_however_often_workers_are_killed(fleet: Fleet):
    pks = put(fleet, JOBS)
    working = [worker(fleet) for _ in range(2)]

    def is_in_the_middle(victim: Process) -> bool:
        if 0 == fleet.value("SELECT count(*) FROM django_jobs_job WHERE state = 'ready'"):
            pks.extend(put(fleet, 100))  # it was slow to start, and the other one was not
        return begun_by(fleet, victim) >= BEGUN

    for _ in range(KILLS):
        victim = working.pop(0)
        wait_for(partial(is_in_the_middle, victim))
        working.append(worker(fleet))
        victim.kill()
    fleet.wait_for_all(seconds=60)
    assert [0, 0] == [fleet.stop(process) for process in working]
    cut_off = fleet.ran("begun") - len(pks)
    assert cut_off >= CUT_OFF, f"too weak: only {cut_off} bodies were cut off"
    rows = fleet.rows("SELECT job FROM ledger_mark WHERE key = 'row' ORDER BY job")
    assert sorted(pks) == rows
    wrong = (
        "SELECT count(*) FROM django_jobs_job j"
        " LEFT JOIN ledger_mark m ON m.job = j.id AND m.key = 'row'"
        " WHERE m.id IS DISTINCT FROM j.result::bigint OR m.attempt <> j.attempt"
    )
    assert 0 == fleet.value(wrong)
    assert fleet.nothing_held()


def test_a_death_after_the_commit_is_repaired_by_the_next_worker(fleet: Fleet):
    limited = {"limit_key": "shared", "limit_size": 1}
    first = fleet.put_one(f"{TASKS}.die_after_commit", "a", **limited)
    child = fleet.put_one("tests.tasks.mark", "child", state="waiting")
    fleet.rows("INSERT INTO django_jobs_dependency (parent, child) VALUES (%s, %s)", first, child)
    doomed = fleet.worker("--lease", "2")
    assert -signal.SIGKILL == doomed.wait()
    assert ("succeeded", 1, "a") == (
        fleet.job(first).state,
        fleet.job(first).attempt,
        fleet.job(first).result,
    )
    assert 1 == fleet.value("SELECT in_use FROM django_jobs_limit WHERE key = 'shared'")
    second = fleet.put_one("tests.tasks.mark", "b", **limited)
    process = fleet.started("--lease", "2")
    fleet.wait_for_state(child, "succeeded")
    fleet.wait_for_state(second, "succeeded", seconds=40)
    assert 0 == fleet.stop(process)
    assert (1, 1, 1) == (fleet.ran("a"), fleet.ran("begun a"), fleet.ran("b"))
    assert 0 == fleet.value("SELECT in_use FROM django_jobs_limit WHERE key = 'shared'")


@pytest.mark.parametrize("commits", [True, False])
def test_a_commit_without_an_answer_counts_once(
    fleet: Fleet, proxy: Proxy, end: End, commits: bool
):
    go = end()
    pk = fleet.put_one(f"{TASKS}.until", "a", str(go))
    process = fleet.started("--lease", "10", port=proxy.port, NOTE_SIGNALS="1")
    fleet.wait_for_run("begun a")
    lost = proxy.lose_answer("COMMIT\0") if commits else proxy.hold_back("COMMIT\0")
    go.touch()
    assert lost.wait(10)
    if not commits:
        proxy.held[0][0].close()  # and so it never arrives
    fleet.wait_for_state(pk, "succeeded")
    wait_for(lambda: f"job {pk} succeeded" in process.log(), what=process.log())
    assert 0 == fleet.stop(process)
    attempts = 1 if commits else 2
    assert (attempts, 1) == (fleet.job(pk).attempt, fleet.ran("a"))
    assert attempts == fleet.job(pk).result
    assert ([] if commits else ["failed"]) == fleet.events(pk)
    assert "1 succeeded" in process.log()
    assert "lost lease" not in process.log()


def test_a_frozen_run_whose_job_went_elsewhere_commits_nothing(fleet: Fleet, end: End):
    go = end()
    pk = fleet.put_one(f"{TASKS}.until", "a", str(go))
    first = fleet.started("--lease", "2")
    fleet.wait_for_run("begun a")
    first.freeze()
    second = fleet.started("--lease", "2")
    fleet.wait_for_run("begun a", 2)
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    first.thaw()
    first.wait_for_log("is void")
    assert [0, 0] == [fleet.stop(each) for each in (first, second)]
    assert (2, 1) == (fleet.job(pk).attempt, fleet.ran("a"))
