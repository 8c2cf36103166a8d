"""``--reload``: a changed file restarts the worker, and a signal stops it once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from django_jobs.worker.reload import LOOK_SECONDS
from tests.processes import Process, wait_for
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
WORKS = "in flight; serves"


class Source:
    """A settings module that a test edits."""

    def __init__(self, fleet: Fleet) -> None:
        self.environment = fleet.settings()
        self.path = fleet.folder / f"{self.environment['DJANGO_SETTINGS_MODULE']}.py"
        self.text = self.path.read_text()

    def edit(self, more: str) -> None:
        """Save it with one more line."""
        self.path.write_text(f"{self.text}{more}\n")


def wait_for_lines(process: Process, text: str, count: int) -> None:
    wait_for(lambda: process.log().count(text) >= count, what=process.log())


def elapse(seconds: float) -> None:
    """Let a time pass in which something wrong would happen."""
    begun = time.monotonic()
    wait_for(lambda: time.monotonic() - begun > seconds)


@pytest.mark.slow
def test_a_changed_file_restarts_it_and_one_that_fails_waits_for_the_next_change(
    fleet: Fleet, end: End
):
    source = Source(fleet)
    parent = fleet.started("--reload", **source.environment)
    source.edit("# changed")
    wait_for_lines(parent, "source changed, restarting", 1)
    wait_for_lines(parent, WORKS, 2)
    source.edit("TASKS['default']['OPTIONS']['max_in_flight'] = 0")
    wait_for_lines(parent, "max_in_flight", 1)
    wait_for(lambda: children(parent) == [], what=parent.log())
    elapse(3 * LOOK_SECONDS)
    assert parent.popen.poll() is None, parent.log()
    source.edit("# mended")
    wait_for_lines(parent, WORKS, 3)
    pk = fleet.put_one("tests.tasks.ok")
    fleet.wait_for_state(pk, "succeeded")
    assert 0 == fleet.stop(parent)
    assert 3 == parent.log().count(WORKS)


def children(process: Process) -> list[str]:
    """The processes that one has started and that still run."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [pid for pid in found if "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2:3]]


def to_its_group(process: Process) -> None:
    """Send what Ctrl-C at a terminal sends: a signal for the whole foreground group."""
    # a worker in it would get two, which now and then arrive as one
    assert process.pid not in [os.getpgid(int(pid)) for pid in children(process)]
    os.killpg(process.pid, signal.SIGINT)


def terminate(process: Process) -> None:
    process.term()


@pytest.mark.parametrize("stop", [to_its_group, terminate])
def test_a_signal_drains_once(fleet: Fleet, end: End, stop: Callable[[Process], None]):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go), max_attempts=1)
    parent = fleet.started("--reload")
    fleet.wait_for_run("a")
    stop(parent)
    wait_for_lines(parent, "draining: 1 in flight", 1)
    elapse(0.4)  # a signal that came twice would be here by now
    assert parent.popen.poll() is None, parent.log()
    go.touch()
    assert 0 == parent.wait()
    assert ("succeeded", 1, []) == (fleet.job(pk).state, fleet.job(pk).attempt, fleet.events(pk))
    assert 1 == parent.log().count("draining")


def test_a_second_signal_ends_it_at_once(fleet: Fleet, end: End):
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(end()), max_attempts=1)
    parent = fleet.started("--reload")
    fleet.wait_for_run("a")
    to_its_group(parent)
    wait_for_lines(parent, "draining: 1 in flight", 1)
    to_its_group(parent)
    assert 130 == parent.wait()
    assert ("ready", 0) == (fleet.job(pk).state, fleet.job(pk).attempt)


def test_a_child_that_ends_well_ends_its_parent(fleet: Fleet):
    fleet.put("tests.tasks.ok")
    assert 0 == fleet.worker("--reload", "--once").wait()
    assert {"succeeded": 1} == fleet.states()
