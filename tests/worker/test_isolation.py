"""A run in a process of its own is judged as any, and killed when its time is over."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.contrib.auth.models import Group

from django_jobs.models import Event as EventRow
from django_jobs.models import Job, Lease
from django_jobs.operations.cancel import cancel
from django_jobs.testing import run_jobs, running_worker
from django_jobs.worker.isolated import _Process
from tests.operations.desk import kinds
from tests.operations.ended import ANA
from tests.processes import wait_for
from tests.worker import isolated_tasks as tasks
from tests.worker.embedded import row, states, wait_for_ends

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 20.0


def pids(path: Path) -> list[int]:
    """Return what a task has said: its process, and the one that it has started."""
    wait_for(path.exists, what=states())
    return [int(word) for word in path.read_text().split()]


def is_gone(pid: int) -> bool:
    """Tell whether a process executes nothing any more; who buries it does not matter."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


def data(result: Any) -> dict[str, Any]:
    """What the last event of a job says."""
    found = EventRow.objects.filter(job_id=int(result.id)).latest("id").data
    return dict(found or {})


def ends(*results: Any) -> list[str]:
    return wait_for_ends(*results, seconds=SECONDS)


def test_a_run_is_killed_when_its_time_is_over_whatever_it_is_at(tmp_path: Path):
    paths = [tmp_path / name for name in ("nap", "listen", "count")]
    late = [
        task.using(timeout=2).enqueue(str(path))
        for task, path in zip((tasks.nap, tasks.listen, tasks.count), paths, strict=True)
    ]
    with running_worker():
        found = [pid for path in paths for pid in pids(path)]
        begun = time.monotonic()
        assert ["dead"] * 3 == ends(*late)
        took = time.monotonic() - begun

    assert took < 5
    assert [["timed_out", "dead"]] * 3 == [kinds(int(result.id)) for result in late]
    error = "TimeoutError: The run took longer than its timeout of 2 s."
    assert [error] * 3 == [row(result).error for result in late]
    assert [True] * 4 == [is_gone(pid) for pid in found]


def test_a_run_that_is_killed_is_tried_again_by_its_policy(tmp_path: Path):
    result = tasks.nap_and_try_again.using(timeout=0.3).enqueue(str(tmp_path / "again"))
    with running_worker():
        assert ["succeeded"] == ends(result)
    assert ["timed_out", "failed"] == kinds(int(result.id))
    assert 2 == row(result).attempt


def test_a_run_that_may_not_be_repeated_dies_with_its_process(tmp_path: Path):
    late = tasks.nap_once.using(timeout=0.3).enqueue(str(tmp_path / "once"))
    gone = tasks.leave_once.enqueue(3)
    with running_worker():
        assert ["dead", "dead"] == ends(late, gone)
    assert [1, 1] == [row(late).attempt, row(gone).attempt]
    assert ["timed_out", "process_died"] == [data(late)["reason"], data(gone)["reason"]]


def test_a_process_that_takes_more_memory_than_it_may_is_killed(tmp_path: Path):
    path = tmp_path / "fill"
    result = tasks.fill.enqueue(str(path))
    with running_worker():
        assert ["dead"] == ends(result)
    error = str(row(result).error)
    assert error.startswith("MemoryError: The process of the run used ")
    assert error.endswith(" MB, more than memory_mb=150.")
    assert is_gone(*pids(path))


@pytest.mark.parametrize(
    ("task", "argument", "how"),
    [
        (tasks.leave, [3], "ended with exit status 3"),
        (tasks.send, [signal.SIGSEGV], "was ended by signal 11 (SIGSEGV)"),
        (tasks.send, [signal.SIGKILL], "was ended by signal 9 (SIGKILL)"),
        (tasks.leave_a_fork, [], "ended with exit status 4"),
        (tasks.babble, ["no message\n"], "sent no JSON and was killed"),
        (tasks.babble, ["[1]\n"], "sent no message and was killed"),
        (tasks.babble, ['{"ready": true}\n'], "sent what is no message and was killed"),
        (
            tasks.babble,
            ['{"outcome": {"state": "won"}}\n'],
            "sent what is no outcome and was killed",
        ),
        (
            tasks.babble,
            ['{"outcome": {"state": "succeeded", "result": "{"}}\n'],
            "sent what is no outcome and was killed",
        ),
        (tasks.babble, ['{"outcome": {"sta', 5], "ended with exit status 5"),
    ],
)
def test_a_process_that_ends_without_an_outcome_is_a_failed_attempt(
    task: Any, argument: list[Any], how: str
):
    result = task.enqueue(*argument)
    with running_worker():
        assert ["dead"] == ends(result)
    error = f"ProcessDied: The process of the run {how} before the task had ended."
    assert error == row(result).error
    assert "attempts" == data(result)["reason"]


def test_a_process_that_closes_all_that_is_open_is_a_failed_attempt():
    result = tasks.shut_everything.enqueue()
    with running_worker():
        assert ["dead"] == ends(result)
    # which of them sees it first, the worker or the process, is chance
    how = "(closed the line to its worker and was killed|ended with exit status 1)"
    assert re.search(f"ProcessDied: The process of the run {how}", str(row(result).error))


def test_each_way_to_end_is_settled_as_in_a_thread(tmp_path: Path):
    told = tasks.tell.enqueue({"a": [1, "ü\ud800"]})
    later = tasks.tell_later.enqueue(0.01)
    failed = tasks.fail.enqueue("no \x00 such")
    bad = [tasks.answer_badly.enqueue(large) for large in (False, True)]
    steered = {
        how: tasks.steer.enqueue(how, str(tmp_path / how))
        for how in ("retry", "snooze", "cancel", "exit")
    }
    with running_worker():
        assert ["succeeded", "succeeded", "dead"] == ends(told, later, failed)
        assert ["dead", "dead"] == ends(*bad)
        ended = dict(zip(steered, ends(*steered.values()), strict=True))
    assert {"a": [1, "ü\ud800"]} == row(told).result[1]
    assert os.getpid() not in (row(told).result[0], row(later).result)
    assert row(told).result[0] != row(later).result

    assert "ValueError: no \\x00 such" == row(failed).error
    assert "raise ValueError(text)" in data(failed)["traceback"]
    assert "django_jobs" not in data(failed)["traceback"]
    assert ["bad_result"] * 2 == [data(result)["reason"] for result in bad]

    assert {
        "retry": "succeeded",
        "snooze": "succeeded",
        "cancel": "cancelled",
        "exit": "dead",
    } == ended
    assert [2, 1] == [row(steered[how]).attempt for how in ("retry", "snooze")]
    assert {"reason": "enough", "by": "task"} == data(steered["cancel"])


def test_what_atomic_promises_holds_in_a_process_too(monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    hear = _Process._hear

    def noted(process: _Process, message: dict[str, Any]) -> None:
        said.extend(message)
        hear(process, message)

    monkeypatch.setattr(_Process, "_hear", noted)
    good = tasks.write_group.enqueue("good")
    bad = tasks.write_group.enqueue("bad", fault="no")
    with running_worker() as worker:
        assert ["succeeded", "dead"] == ends(good, bad)
    assert 1 == said.count("settling")  # so that no renewal takes the commit for a loss
    assert ["good"] == list(Group.objects.values_list("name", flat=True))
    assert (0, 1) == (worker.loop.tally.lost, worker.loop.tally.succeeded)


def test_a_run_that_hangs_after_its_commit_is_killed_and_has_succeeded():
    with running_worker(drain_seconds=1, max_in_flight=1) as worker:
        result = tasks.hang_after_commit.enqueue("a")
        assert ["succeeded"] == ends(result)
        wait_for(lambda: not worker.capacity.held, what=states())
        assert ["succeeded"] == ends(tasks.tell.enqueue())
    assert (1, 1) == (row(result).attempt, Group.objects.filter(name="a").count())


@pytest.mark.parametrize("task", [tasks.obey, tasks.obey_later])
def test_a_run_that_is_asked_to_end_ends_by_itself(task: Any, tmp_path: Path):
    path = tmp_path / "asked"
    result = task.enqueue(str(path))
    with running_worker(grace_seconds=60):
        [pid] = pids(path)
        cancel([int(result.id)], actor=ANA, reason="wrong", database="default")
        assert ["cancelled"] == ends(result)
    assert is_gone(pid)


def test_a_run_that_does_not_end_when_it_is_asked_is_killed(tmp_path: Path):
    path = tmp_path / "asked"
    result = tasks.refuse.enqueue(str(path))
    with running_worker(grace_seconds=0.5):
        [pid] = pids(path)
        cancel([int(result.id)], actor=ANA, reason="wrong", database="default")
        assert ["cancelled"] == ends(result)
    assert is_gone(pid)


def test_a_run_whose_lease_is_lost_is_killed(tmp_path: Path):
    path = tmp_path / "lost"
    result = tasks.nap_once.enqueue(str(path))
    with running_worker(lease_seconds=2, renew_seconds=0.1, drain_seconds=5) as worker:
        found = pids(path)
        Lease.objects.filter(job_id=int(result.id)).delete()  # as a rescue does
        wait_for(lambda: not worker.capacity.held, what="It is held for ever.")
        assert is_gone(*found)
    assert 1 == worker.loop.tally.lost


def test_a_run_is_told_that_its_lease_may_be_lost(tmp_path: Path):
    path = tmp_path / "may"
    silent = Event()
    with running_worker() as worker:
        worker.runs._is_lost = lambda _: silent.is_set()
        result = tasks.wait_until_lost.enqueue(str(path))
        pids(path)
        silent.set()
        wait_for(lambda: Path(f"{path}.lost").exists())
        assert ["succeeded"] == ends(result)


def test_what_a_run_says_of_its_progress_is_written_by_its_worker(tmp_path: Path):
    path = tmp_path / "go"
    result = tasks.report.enqueue(str(path))
    with running_worker():
        wait_for(lambda: Lease.objects.filter(progress__contains="three").exists(), what=states())
        path.touch()
        assert ["succeeded"] == ends(result)


def test_signals_are_sent_once_and_in_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "signals"
    monkeypatch.setenv("ISOLATED_SIGNALS", str(path))
    result = tasks.tell.enqueue()
    with running_worker():
        assert ["succeeded"] == ends(result)
    me = os.getpid()
    assert [f"RUNNING {me}", f"SUCCESSFUL {me}"] == path.read_text().splitlines()


def test_a_run_goes_on_when_its_group_is_told_to_stop_and_what_it_started_does_not():
    result = tasks.end_children.enqueue("")
    with running_worker():
        assert ["succeeded"] == ends(result)
    assert "-15 -15" == row(result).result


def test_run_jobs_makes_no_process_of_it():
    result = tasks.tell.enqueue(1)
    run_jobs()
    assert [os.getpid(), 1] == Job.objects.get(pk=int(result.id)).result
