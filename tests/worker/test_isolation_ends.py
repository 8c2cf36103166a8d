"""The process of a run never outlives its worker, and leaves nothing behind in it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import UserSettingsHolder, global_settings, settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_jobs.conf import Options
from django_jobs.exceptions import ProcessDied
from django_jobs.models import Lease
from django_jobs.operations import settle as settling
from django_jobs.operations.claim import Claimed
from django_jobs.operations.settle import Outcome
from django_jobs.testing import running_worker
from django_jobs.worker import isolated as isolation
from django_jobs.worker import spawned
from django_jobs.worker.isolated import isolated
from django_jobs.worker.line import Line
from django_jobs.worker.perform import begin
from django_jobs.worker.run import Run
from tests.operations.desk import desks, jobs, kinds
from tests.processes import JobWorkers, wait_for
from tests.worker import isolated_tasks as tasks
from tests.worker.embedded import rescued_later, row
from tests.worker.test_isolation import data, ends, is_gone, pids

pytestmark = pytest.mark.django_db(transaction=True)

RUNS = 20
Inject = Callable[[str], None]


@pytest.fixture
def injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inject:
    """Let processes run some code before anything else."""

    def inject(code: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return inject


# its worker


@pytest.mark.subprocess
@pytest.mark.parametrize("task", [tasks.count, tasks.nap_once])
def test_it_does_not_outlive_a_worker_that_is_killed(
    task: Any, jobworker: JobWorkers, tmp_path: Path
):
    path = tmp_path / "pid"
    result = task.enqueue(str(path))
    worker = jobworker("--lease", "30")
    [pid] = pids(path)
    os.kill(worker.pid, signal.SIGKILL)
    wait_for(lambda: is_gone(pid), seconds=2, what="It lives on.")
    assert [int(result.id)] == [rescued.id for rescued in rescued_later(result)]


@pytest.mark.subprocess
def test_a_second_signal_ends_it_with_its_worker(jobworker: JobWorkers, tmp_path: Path):
    path = tmp_path / "pid"
    result = tasks.nap.enqueue(str(path))
    worker = jobworker("--drain-timeout", "60")
    found = pids(path)
    worker.term()
    worker.wait_for_log("draining: 1 in flight")
    worker.term()
    assert 128 + signal.SIGTERM == worker.wait()
    assert [True, True] == [is_gone(pid) for pid in found]
    assert ("ready", 0) == (row(result).state, row(result).attempt)


def test_it_is_gone_before_a_drain_hands_its_job_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "pid"
    settle = settling.settle
    gone: list[bool] = []
    found: list[int] = []

    def watched(batch: list[Outcome], **given: Any) -> Any:
        gone.extend(is_gone(pid) for pid in found)
        return settle(batch, **given)

    monkeypatch.setattr("django_jobs.worker.loop.settle", watched)
    result = tasks.nap.enqueue(str(path))
    with running_worker(drain_seconds=0):
        found += pids(path)
    assert [True, True] == gone
    assert ("ready", 0) == (row(result).state, row(result).attempt)


def test_a_run_that_may_not_be_repeated_is_killed_by_a_drain_and_not_handed_back(tmp_path: Path):
    path = tmp_path / "pid"
    result = tasks.nap_once.enqueue(str(path))
    with running_worker(drain_seconds=0) as worker:
        found = pids(path)
    assert is_gone(*found)
    assert ("running", 1) == (row(result).state, row(result).attempt)
    assert 1 == worker.loop.tally.left
    assert Lease.objects.filter(job_id=int(result.id)).exists()


def test_a_run_that_a_drain_finds_before_it_begins_is_handed_back(
    tmp_path: Path, injected: Inject
):
    path = tmp_path / "started"
    injected(f"import pathlib, time; pathlib.Path({str(path)!r}).touch(); time.sleep(60)")
    result = tasks.nap_once.enqueue(str(tmp_path / "never"))
    with running_worker(drain_seconds=0):
        wait_for(path.exists)
    assert ("ready", 0) == (row(result).state, row(result).attempt)
    assert not (tmp_path / "never").exists()


# its start


def test_its_start_is_not_counted_as_its_time(injected: Inject):
    injected("import time; time.sleep(1.5)")
    result = tasks.tell.using(timeout=1).enqueue(1)
    with running_worker():
        assert ["succeeded"] == ends(result)
    assert [] == kinds(int(result.id))


def test_a_start_that_takes_too_long_is_broken_off(
    tmp_path: Path, injected: Inject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(isolation, "STARTUP_SECONDS", 0.5)
    path = tmp_path / "pid"
    injected(f"import os, time; open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    result = tasks.nap.enqueue(str(tmp_path / "never"))
    with running_worker():
        assert ["dead"] == ends(result)
        assert is_gone(*pids(path))
    assert "was not ready within 0.5 s" in str(row(result).error)
    assert "attempts" == data(result)["reason"]  # it was not begun, so it may be tried again


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os; os._exit(9)", "ended with exit status 9 before the task could begin."),
        (
            "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'no_such_settings'",
            "failed: ModuleNotFoundError: No module named 'no_such_settings'",
        ),
    ],
)
def test_a_process_that_cannot_start_says_why(code: str, why: str, injected: Inject):
    injected(code)
    result = tasks.nap_once.using().enqueue("never")
    with running_worker():
        wait_for(lambda: row(result).attempt == 3 and row(result).finished_at)
    assert f"ProcessDied: The process of the run {why}" == row(result).error
    assert ["failed", "failed", "dead"] == kinds(int(result.id))


def test_a_task_that_only_the_worker_knows_waits_for_another(injected: Inject):
    injected("import sys; sys.modules['tests.worker.isolated_tasks'] = None")
    result = tasks.tell.enqueue(1)
    with running_worker():
        wait_for(lambda: kinds(int(result.id)))
    assert ["unknown_task"] == kinds(int(result.id))
    assert 0 == row(result).attempt


@override_settings(USE_TZ=True)
def test_settings_need_a_module_of_which_overrides_are_no_loss(monkeypatch: pytest.MonkeyPatch):
    assert os.environ["DJANGO_SETTINGS_MODULE"] == isolation._settings_module()
    monkeypatch.setattr(settings, "_wrapped", UserSettingsHolder(global_settings))
    with pytest.raises(ImproperlyConfigured, match="DJANGO_SETTINGS_MODULE"):
        isolation._settings_module()


def test_no_settings_module_is_a_failed_start(monkeypatch: pytest.MonkeyPatch):
    def fail() -> str:
        raise ImproperlyConfigured("no module")

    monkeypatch.setattr(isolation, "_settings_module", fail)
    result = tasks.leave.enqueue(0)
    with running_worker():
        assert ["dead"] == ends(result)
    assert "ImproperlyConfigured: no module" == row(result).error


# what is left

START = (
    "import os, socket, sys, json; fd = json.loads(sys.argv[1])[2]; s = socket.socket(fileno=fd);"
    """ s.send(b'{"ready": true}\\n'); s.recv(99)"""
)
SPEAK = f"""{START}; s.send(b'{{"progress": [1, null, ""]}}\\n'); s.recv(99); s.recv(99)"""
OUTCOME = """s.send(b'{"outcome": {"state": "succeeded", "result": "1"}}\\n')"""
ENDS: dict[str, tuple[str, Callable[[Run], None], str]] = {
    "succeeded": (f"{START}; {OUTCOME}; s.recv(99)", Run.time_out, "succeeded"),
    "died": (f"{START}; os._exit(3)", Run.time_out, "dead"),
    "was killed": (f"{START}; os.kill(os.getpid(), 9)", Run.time_out, "dead"),
    "spoke nonsense": (f"{START}; s.send(b'?\\n'); s.recv(99)", Run.time_out, "dead"),
    "was late": (SPEAK, Run.time_out, "dead"),
    "was asked": (SPEAK, Run.ask, "cancelled"),
    "was lost": (SPEAK, lambda run: setattr(run, "lost", True), "dead"),
    "was handed back": (SPEAK, lambda run: setattr(run, "abandoned", True), "none"),
    "did not start": ("raise SystemExit(5)", Run.time_out, "broken"),
    "was not there": ("", Run.time_out, "broken"),
}


class Speaking(Run):
    """A run to which something happens when it says something."""

    __slots__ = ("happens",)
    happens: Callable[[Run], None]

    def say(self, said: Any) -> None:
        super().say(said)
        self.happens(self)


def ended(job: Claimed, happens: Callable[[Run], None]) -> str:
    """Run a job in a process of its own; return how that ended."""
    run = Speaking(job, timeout=60)
    run.happens = happens
    task = copy_context().run(begin, run, alias="default")  # the test is about no job
    assert task is not None
    options = Options("default", grace_seconds=0)
    try:
        isolated(run, task, worker=uuid4(), options=options, is_lost=lambda run: run.lost)
    except (ProcessDied, OSError):
        return "broken"
    run.cancel()  # as a timekeeper may that has looked a moment ago
    assert run.kill()
    return run.outcome.state if run.outcome is not None else "none"


def left() -> tuple[list[str], list[str]]:
    """What this process has open, and the processes that it has started."""
    children = Path("/proc/self/task").glob("*/children")
    fds = sorted(file.name for file in Path("/proc/self/fd").iterdir())
    return fds, [pid for file in children for pid in file.read_text().split()]


@pytest.mark.parametrize("kind", ENDS)
def test_nothing_is_left_of_a_process_that(kind: str, monkeypatch: pytest.MonkeyPatch):
    code, happens, state = ENDS[kind]
    monkeypatch.setattr(spawned, "BOOT", code)
    if not code:
        monkeypatch.setattr(sys, "executable", "/no/such/python")
    with desks("one") as [desk]:
        jobs(task=tasks.leave.module_path, args=[0], max_attempts=1)
        [job] = desk.claim()
        ended(job, happens)  # what is made once is there
        before = left()
        assert [state] * RUNS == [ended(job, happens) for _ in range(RUNS)]
        assert before == left()


@pytest.mark.parametrize(
    ("happens", "state"),
    [
        (ENDS["was handed back"][1], "none"),
        (ENDS["was lost"][1], "dead"),
        (Run.ask, "cancelled"),
    ],
)
def test_a_run_that_shall_not_begin_any_more_is_not_told_to(
    happens: Callable[[Run], None], state: str, monkeypatch: pytest.MonkeyPatch
):
    words = """b'{"progress": [1, null, ""]}\\n{"ready": true}\\n'"""
    monkeypatch.setattr(
        spawned, "BOOT", f"{START.partition(' s.send')[0]} s.send({words}); s.recv(9)"
    )
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(Line, "send", lambda _, **message: sent.append(message))
    with desks("one") as [desk]:
        jobs(task=tasks.leave.module_path, args=[0], max_attempts=1)
        [job] = desk.claim()
        assert state == ended(job, happens)
    assert [] == sent
