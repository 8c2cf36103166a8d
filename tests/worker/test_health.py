"""A real worker answers probes for what it is: busy, idle, draining, cut off or wedged."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.health.knocking import Heard, connected, get
from tests.processes import Process, wait_for
from tests.proxy import Proxy
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
PORT = ("--health-port", "0")
# A claim that never comes back, in a worker that is believed for a second beyond its lease.
WEDGED = """
import django.core.management.base as base
execute = base.BaseCommand.execute
def executed(self, *args, **options):
    import threading
    from django_jobs.health import probes
    from django_jobs.worker.loop import Loop
    probes.SLACK = 1.0
    claim, passes = Loop._claim_pass, []
    def wedged(loop, most):
        passes.append(1)
        if len(passes) > 3:
            print("wedged", flush=True)
            threading.Event().wait()
        return claim(loop, most)
    Loop._claim_pass = wedged
    return execute(self, *args, **options)
base.BaseCommand.execute = executed
"""


def address(worker: Process) -> str:
    """Where a worker answers."""
    found = re.search(r"health on http://(\S+)/livez", worker.wait_for_log("health on http://"))
    assert found is not None
    return found[1]


def statuses(at: str) -> tuple[int, int]:
    """What ``/livez`` and ``/readyz`` say."""
    return get(at).status, get(at, "/readyz").status


def asked(fleet: Fleet, worker: Process, *words: str) -> tuple[int, str]:
    """Ask a worker from another process; return its status and what it said."""
    named = ("jobs", "health", "--worker", f"{name(fleet)}:{worker.pid}", *words)
    process = fleet.command(*named)
    return process.wait(), process.log()


def name(fleet: Fleet) -> str:
    return str(fleet.value("SELECT name FROM django_jobs_worker"))


def test_an_idle_a_busy_and_a_draining_worker_are_well(fleet: Fleet, end: End):
    worker = fleet.idle(*PORT)
    at = address(worker)
    assert (200, 200) == statuses(at)  # idle
    go = end()
    fleet.put("tests.worker.tasks.until", "busy", str(go))
    fleet.wait_for_run("busy")
    assert (200, 200) == statuses(at)
    worker.term()
    wait_for(lambda: "draining" == get(at).said["state"])
    assert (200, 200) == statuses(at)
    go.touch()
    assert 0 == worker.wait()
    with pytest.raises(ConnectionRefusedError):
        connected(at)


def test_the_row_holds_the_address_from_its_first_moment(fleet: Fleet):
    worker = fleet.started(*PORT)
    row = fleet.value("SELECT health, id::text, name FROM django_jobs_worker")
    at, said = address(worker), get(address(worker)).said
    assert (at, said["worker"], said["name"]) == row
    assert worker.pid == said["pid"]
    assert (0, True) == (asked(fleet, worker)[0], "Traceback" not in worker.log())


def test_a_worker_without_a_port_has_no_address(fleet: Fleet):
    worker = fleet.started()
    assert [None] == fleet.rows("SELECT health FROM django_jobs_worker")
    status, log = asked(fleet, worker)
    assert (0, True) == (status, "by its row" in log)


def test_a_worker_of_another_start_at_the_address_is_not_believed(fleet: Fleet):
    first = fleet.started(*PORT)
    port = address(first).rpartition(":")[2]
    first.kill()
    second = fleet.started("--health-port", port)
    status, log = asked(fleet, first)
    assert (1, True) == (status, "is another worker" in log), log
    assert 1 == log.count("\n")
    assert 0 == asked(fleet, second)[0]


@pytest.mark.slow
def test_a_database_that_stops_answering_leaves_it_live_and_not_ready(fleet: Fleet, proxy: Proxy):
    worker = fleet.idle(*PORT, port=proxy.port)
    at = address(worker)
    assert (200, 200) == statuses(at)
    proxy.drop()  # every line stays open and says nothing more
    begun = time.monotonic()
    while time.monotonic() - begun < 10:  # three lease times
        before = time.monotonic()
        live, ready = get(at), get(at, "/readyz")
        assert (200, 503) == (live.status, ready.status), (live.said, ready.said)
        assert time.monotonic() - before < 3
    proxy.restore()
    proxy.cut()
    wait_for(lambda: (200, 200) == statuses(at))


def test_a_database_that_is_stopped_leaves_it_live_and_not_ready(fleet: Fleet):
    worker = fleet.idle(*PORT)
    at = address(worker)
    fleet.server.stop("immediate")
    try:
        for _ in range(5):
            assert (200, 503) == statuses(at)
    finally:
        fleet.server.start()
    wait_for(lambda: (200, 200) == statuses(at))


def test_a_worker_that_waits_for_its_first_database_is_live_and_starting(
    fleet: Fleet, proxy: Proxy
):
    proxy.refusing = True
    worker = fleet.worker(*PORT, port=proxy.port)
    at = address(worker)
    worker.wait_for_log("cannot reach the database")
    assert (200, 503) == statuses(at)
    assert "it is starting" == get(at, "/readyz").said["fault"]
    proxy.refusing = False
    wait_for(lambda: (200, 200) == statuses(at))


@pytest.mark.slow
def test_a_wedged_loop_is_not_live_though_renewer_and_probes_are(fleet: Fleet):
    worker = fleet.started(*PORT, **fleet.injected(WEDGED))
    at = address(worker)
    worker.wait_for_log("wedged")

    def told() -> Heard | None:
        answer = get(at)
        return answer if answer.status == 503 else None

    wait_for(told)
    answer: Any = told()
    assert "the claim loop has been at one turn" in answer.said["fault"]
    assert 200 == get(at, "/readyz").status  # the database is well
    beats = "SELECT seen_at > clock_timestamp() - interval '2 seconds' FROM django_jobs_worker"
    fleet.wait(beats)
    status, log = asked(fleet, worker)
    assert (1, 1) == (status, log.count("\n")), log
    assert worker.popen.poll() is None


def test_hostile_clients_leave_the_worker_at_its_work(fleet: Fleet):
    worker = fleet.idle(*PORT)
    at = address(worker)
    lines = [connected(at) for _ in range(200)]
    for line in lines[::2]:
        line.setblocking(False)
        try:
            line.send(b"GET /livez HTTP/1.1\r\nX: " + b"x" * 20_000)
        except OSError:  # it had to make room already
            continue
    fleet.put("tests.tasks.ok", count=20)
    fleet.ring()
    fleet.wait_for_all()
    assert (200, 200) == statuses(at)
    files = len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))
    threads = len(list(Path(f"/proc/{worker.pid}/task").iterdir()))
    assert (True, True) == (files < 100, threads < 30), (files, threads)
    for line in lines:
        line.close()
    assert 0 == fleet.stop(worker)
    assert "Traceback" not in worker.log()
    assert "probe" not in worker.log()


def test_a_taken_port_ends_the_command_before_anything_is_claimed(fleet: Fleet):
    port = address(fleet.started(*PORT)).rpartition(":")[2]
    pk = fleet.put_one("tests.tasks.ok", queue="unserved")
    other = fleet.worker("--health-port", port)
    assert (2, True) == (other.wait(), f"--health-port {port} cannot be served" in other.log())
    assert "Traceback" not in other.log()
    assert ("ready", 1) == (
        fleet.job(pk).state, fleet.value("SELECT count(*) FROM django_jobs_worker")
    )  # fmt: skip


def test_the_processes_of_a_parent_take_ports_in_a_row(fleet: Fleet):
    first = fleet.started(*PORT)
    port = int(address(first).rpartition(":")[2])
    fleet.stop(first)
    second = fleet.started("--health-port", str(port - 1), DJANGO_JOBS_PROCESS="1")
    assert str(port) == address(second).rpartition(":")[2]


def test_a_host_can_be_named(fleet: Fleet):
    assert address(fleet.started(*PORT, "--health-host", "127.0.0.1")).startswith("127.0.0.1:")
    other = fleet.worker(*PORT, "--health-host", "203.0.113.7")
    assert (2, True) == (other.wait(), "--health-host" in other.log())
