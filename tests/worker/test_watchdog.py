"""A loop that is stuck ends its process; one that waits or sleeps does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_for
from tests.proxy import Proxy
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
SHORT: dict[str, Any] = {"lease_seconds": 2, "watchdog_seconds": 3}
SILENT = 75


@pytest.mark.slow
def test_a_loop_that_cannot_settle_and_hears_nothing_ends_the_process(
    fleet: Fleet, proxy: Proxy, end: Callable[[], Path]
):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    worker = fleet.started("--lease", "2", port=proxy.port, **fleet.settings(**SHORT))
    fleet.wait_for_run("a")
    proxy.drop()
    go.touch()
    begun = time.monotonic()
    assert SILENT == worker.wait(15)
    assert time.monotonic() - begun < 10
    assert "has been silent for" in worker.log()
    fleet.started("--lease", "2")
    fleet.wait_for_state(pk, "succeeded")
    assert (["rescued"], 2) == (fleet.events(pk), fleet.job(pk).attempt)


def test_an_idle_loop_is_not_a_silent_one(fleet: Fleet):
    slow = fleet.settings(**SHORT, poll_floor_seconds=4.5)
    worker = fleet.idle("--lease", "2", "--no-listen", **slow)
    fleet.wait("SELECT started_at < clock_timestamp() - interval '4 s' FROM django_jobs_worker")
    assert worker.popen.poll() is None, worker.log()
    assert 0 == fleet.stop(worker)


def test_a_worker_that_waited_long_for_its_database_starts_with_a_clean_clock(fleet: Fleet):
    fleet.server.stop()
    try:
        worker = fleet.worker("--lease", "2", **fleet.settings(**SHORT))
        worker.wait_for_log("cannot reach the database")
        begun = time.monotonic()
        wait_for(lambda: time.monotonic() - begun > SHORT["watchdog_seconds"] + 0.2)
    finally:
        fleet.server.start()
    pk = fleet.put_one("tests.tasks.ok")
    fleet.wait_for_state(pk, "succeeded")
    assert 0 == fleet.stop(worker)


def test_a_statement_that_is_never_answered_is_given_up_and_sent_again(fleet: Fleet, proxy: Proxy):
    """One line that goes dead costs its worker a lease time, not its life."""
    worker = fleet.idle("--lease", "2", port=proxy.port)
    lost = proxy.lose("DELETE FROM django_jobs_lease l USING held")
    pk = fleet.put_one("tests.tasks.ok")
    fleet.ring()
    assert lost.wait(5)
    fleet.wait_for_state(pk, "succeeded", seconds=6)
    assert "has not answered the loop for 2 s: reconnecting" in worker.log()
    assert (1, []) == (fleet.job(pk).attempt, fleet.events(pk))
    assert 0 == fleet.stop(worker)


@pytest.mark.slow
def test_a_log_that_takes_no_line_does_not_keep_a_process_whose_time_is_over(fleet: Fleet):
    fleet.put("tests.worker.late_tasks.keep_the_log", "a")
    worker = fleet.started("--lease", "2", "--drain-timeout", "0")
    fleet.wait_for_run("a")
    worker.term()
    assert 0 == worker.wait(15)
