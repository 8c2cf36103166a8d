"""``--processes``: N workers under one parent, which ends when they have and not before."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from django_jobs.worker.flags import UsageError, count
from django_jobs.worker.lifeline import VARIABLE, held
from django_jobs.worker.supervisor import LONGEST_SECONDS, MOST, Backoff
from tests.processes import ROOT, Process, wait_for
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]

QUICK = """
import django.core.management.base as base
execute = base.BaseCommand.execute
def executed(self, *args, **options):
    from django_jobs.worker import supervisor
    supervisor.FIRST_SECONDS, supervisor.SLACK_SECONDS = {first}, {slack}
    return execute(self, *args, **options)
base.BaseCommand.execute = executed
"""

# A parent that asks no database, and its children, which need not even Django.
SCRIPT = """
import logging, os, signal, subprocess, sys, threading, time

def turn():
    "Return how many of us have started so far."
    with open(sys.argv[1], "a+") as turns:
        turns.write(".")
        turns.flush()
        return turns.tell()

def wait(status=0):
    "End when the parent lets go."
    print("ready", flush=True)
    os.read(int(os.environ["DJANGO_JOBS_LIFELINE"].split(":")[0]), 1)
    os._exit(status)

def child():
{child}

if "DJANGO_JOBS_LIFELINE" in os.environ:
    child()
    sys.exit()

import django
django.setup()
from django_jobs.worker import supervisor
from django_jobs.worker.lifeline import held
logging.basicConfig(level="INFO")
supervisor.FIRST_SECONDS, supervisor.LONGEST_SECONDS = 0.2, 0.8
supervisor.SLACK_SECONDS, supervisor.AGAIN_SECONDS = {slack}, 0.1
sys.exit(supervisor.Supervisor({processes}, drain_seconds=0.2, once={once}).run(held()))
"""


def children(pid: int) -> list[int]:
    """The processes that one has started and that are not yet gone, zombies among them."""
    with suppress(FileNotFoundError, ProcessLookupError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in text.split()]
    return []


def is_there(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def sockets(pid: int) -> list[str]:
    """The sockets that a process has open: it has no session without one."""
    links = map(os.readlink, Path(f"/proc/{pid}/fd").iterdir())
    return [link for link in links if link.startswith("socket:")]


class Supervised:
    """Starts supervisors; whoever is left of them and their children at the end is killed."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.seen: set[int] = set()

    def __call__(self, count: int, *flags: str, **environment: Any) -> Process:
        """Start one; return when all its workers work."""
        process = self.fleet.worker(*flags, "--processes", str(count), **environment)
        wait_for(lambda: process.log().count("in flight; serves") >= count, what=process.log())
        self.seen |= {*children(process.pid)}
        assert count == len(children(process.pid))
        return process

    def kill_the_rest(self) -> None:
        """Kill by id those that a test has left."""
        for process in self.fleet.processes.started:
            self.seen |= {*children(process.pid)}
            process.kill()
        for pid in self.seen:
            with suppress(ProcessLookupError):
                if b"jobworker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def supervised(fleet: Fleet) -> Iterator[Supervised]:
    supervised = Supervised(fleet)
    yield supervised
    with suppress(FileNotFoundError):
        supervised.kill_the_rest()


class Scripts:
    """Supervisors of small scripts, for what takes many children."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def __call__(
        self, child: str, *, processes: int = 2, once: bool = False, slack: float = 5
    ) -> Script:
        """Start one whose children run the lines ``child``."""
        number = len(self.started)
        path = self.folder / f"script-{number}.py"
        lines = "\n".join(f"    {line}" for line in child.splitlines())
        path.write_text(SCRIPT.format(child=lines, processes=processes, once=once, slack=slack))
        script = Script(path)
        self.started.append(script.popen)
        return script


class Script:
    """One of them, and what it has said."""

    def __init__(self, path: Path) -> None:
        self.log_path, self.turns = path.with_suffix(".log"), path.with_suffix(".turns")
        self.turns.touch()
        with self.log_path.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, path, self.turns],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "DJANGO_SETTINGS_MODULE": "tests.settings",
                    "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing",
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self) -> str:
        return self.log_path.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until its log contains ``text`` so often."""

        def said() -> bool:
            ended, log = self.popen.poll() is not None, self.log()
            assert not ended or log.count(text) >= times, log
            return log.count(text) >= times

        wait_for(said, what=text)

    def wait(self) -> int:
        status = self.popen.wait(20)
        assert "Traceback" not in self.log()
        return status

    def pauses(self) -> list[str]:
        """When each next one was said to start."""
        return re.findall(r"the next one starts (.+)", self.log())


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Scripts]:
    scripts = Scripts(tmp_path)
    yield scripts
    for popen in scripts.started:
        for pid in [*children(popen.pid), *([popen.pid] if popen.poll() is None else [])]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        popen.wait()


# The pauses between starts


def test_failures_in_a_row_wait_longer_and_longer_up_to_a_bound():
    backoff = Backoff()
    pauses = [backoff.after(status, lived=59.9) for status in (1, 75, -9, 137, 1, 1, 1)]
    assert [1, 2, 4, 8, 16, 30, 30] == pauses
    backoff.failures = 5000
    assert LONGEST_SECONDS == backoff.after(1, lived=0)


def test_a_failure_after_a_minute_of_life_is_the_first_again():
    backoff = Backoff(failures=4)
    assert [1, 2] == [backoff.after(1, lived=60), backoff.after(1, lived=0)]


@pytest.mark.parametrize("status", [0, 70])
def test_who_ended_well_is_followed_at_once_but_never_twice_a_second(status: int):
    backoff = Backoff(failures=4)
    assert [0, 0.75] == [backoff.after(status, lived=each) for each in (5, 0.25)]
    assert 1 == backoff.after(1, lived=0)


# Small scripts in place of workers


def test_a_crash_loop_slows_down(script: Scripts):
    parent = script("os._exit(1)", processes=1)
    parent.wait_for("the next one starts", 4)
    assert ["in 0.2 s", "in 0.4 s", "in 0.8 s", "in 0.8 s"] == parent.pauses()[:4]
    assert "ended with status 1; " in parent.log()
    parent.popen.terminate()
    assert 0 == parent.wait()  # what ended before the stop does not count


def test_a_recycled_process_is_followed_at_once(script: Scripts):
    parent = script("turn() == 1 and (time.sleep(0.25) or os._exit(70))\nwait()", processes=1)
    parent.wait_for("ready")
    assert ["at once"] == parent.pauses()
    parent.popen.terminate()
    assert 0 == parent.wait()


@pytest.mark.parametrize("status", [2, 3])
def test_a_status_that_the_next_would_end_with_too_ends_all(script: Scripts, status: int):
    parent = script(f"turn() == 2 and os._exit({status})\nwait()", processes=3)
    assert status == parent.wait()
    assert f"ended with status {status}: all others are stopped" in parent.log()
    assert len(parent.turns.read_text()) <= 3
    assert [] == parent.pauses()


def test_once_restarts_nothing_and_ends_with_the_first_bad_status(script: Scripts):
    parent = script(
        "me = turn()\ntime.sleep(0.3 * me)\nos._exit([0, 5, 7][me - 1])", processes=3, once=True
    )
    assert 5 == parent.wait()
    parent = script("os.kill(os.getpid(), 9)", once=True)
    assert 137 == parent.wait()
    parent = script("os._exit(0)", once=True)
    assert 0 == parent.wait()


def test_a_stop_ends_a_child_that_was_only_starting(script: Scripts):
    parent = script("print('starting', flush=True)\ntime.sleep(0.5)\nwait()")
    parent.wait_for("starting", 2)
    parent.popen.send_signal(signal.SIGINT)  # which would raise KeyboardInterrupt in it
    assert 0 == parent.wait()
    assert "killed" not in parent.log()


def test_a_stop_ends_with_the_first_bad_status(script: Scripts):
    parent = script("wait(6)")
    parent.wait_for("ready", 2)
    parent.popen.terminate()
    assert 6 == parent.wait()


def test_a_stop_is_no_signal_and_a_second_one_is_two(script: Scripts):
    parent = script(
        "got = []\n"
        "for each in (2, 15): signal.signal(each, lambda *_: print('got', got.append(1)))\n"
        "threading.Thread(target=lambda: (os.read(int(os.environ['DJANGO_JOBS_LIFELINE']"
        ".split(':')[0]), 1), print('let go', flush=True))).start()\n"
        "print('ready', flush=True)\n"
        "while len(got) < 2:\n    time.sleep(0.01)\n    sys.stdout.flush()\nos._exit(9)",
        slack=10,
    )
    parent.wait_for("ready", 2)
    parent.popen.terminate()
    parent.wait_for("let go", 1)
    assert "got" not in parent.log()
    parent.popen.send_signal(signal.SIGINT)
    assert 130 == parent.wait()
    assert "killed" not in parent.log()


def test_a_child_that_does_not_end_in_time_is_killed_with_what_it_has_started(script: Scripts):
    parent = script(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "mine = subprocess.Popen(['sleep', '60'])\nprint('mine', mine.pid, 'runs', flush=True)\n"
        "time.sleep(60)",
        processes=1,
        slack=0.3,
    )
    parent.wait_for("runs")
    (pid,) = re.findall(r"mine (\d+) runs", parent.log())
    parent.popen.terminate()
    assert 137 == parent.wait()
    assert "did not end in time: killed" in parent.log()
    wait_for(lambda: not is_there(int(pid)))


def test_what_a_task_starts_does_not_hold_the_pipe(script: Scripts):
    parent = script(
        "import django\ndjango.setup()\nfrom django_jobs.worker.lifeline import held\n"
        "parent = held()\n"
        "def inherit():\n"
        "    for fd in map(int, os.listdir('/proc/self/fd')):\n"
        "        if os.path.exists(f'/proc/self/fd/{fd}') and os.get_inheritable(fd):\n"
        "            yield fd\n"
        f"given = os.environ.get({VARIABLE!r})\n"
        "print('inherited', *inherit(), given, *parent.does, 'all', flush=True)\n"
        "parent.watch(lambda: os._exit(0))\ntime.sleep(60)",
        processes=1,
    )
    parent.wait_for(" all")
    assert re.search("inherited 0 1 2 None (processes reload|reload processes) all", parent.log())


def test_a_variable_that_was_inherited_without_its_pipe_says_nothing(monkeypatch: Any):
    reader, writer = os.pipe()
    for text in (f"{reader}:1:processes", "999:1:processes", ""):
        monkeypatch.setenv(VARIABLE, text)
        assert frozenset() == held().does
        assert VARIABLE not in os.environ
    os.close(reader)
    os.close(writer)


# Workers


def test_workers_share_the_jobs_and_a_sigterm_drains_them_all(
    fleet: Fleet, supervised: Supervised, end: End
):
    go = end()
    parent = supervised(3, "--max-in-flight", "2", "--name", "web", "--resource", "memory_mb=8000")
    pids = children(parent.pid)
    workers = fleet.rows("SELECT pid, capacity, name FROM django_jobs_worker ORDER BY pid")
    assert [(pid, 2, "web") for pid in sorted(pids)] == workers
    assert "3 processes of up to 2 in flight each, 6 in all" in parent.log()
    assert "own memory_mb 8,000, together memory_mb 24,000" in parent.log()
    assert [] == sockets(parent.pid)
    wait_for(lambda: len(sockets(pids[0])) >= 3)  # which its workers do not lack
    fleet.put("tests.worker.tasks.until", "a", str(go), count=6, max_attempts=1)
    fleet.ring()
    fleet.wait_for_run("a", 6)
    ran = fleet.rows("SELECT pid, count(*) FROM ledger_mark GROUP BY pid ORDER BY pid")
    assert [(pid, 2) for pid in sorted(pids)] == ran
    parent.term()
    wait_for(lambda: parent.log().count("draining: 2 in flight") == 3, what=parent.log())
    assert parent.popen.poll() is None
    assert all(
        re.search(rf"^\S+ \S+ {pid} INFO draining", parent.log(), re.MULTILINE) for pid in pids
    )
    go.touch()
    assert 0 == parent.wait()
    assert {"succeeded": 6} == fleet.states()
    assert [] == [pid for pid in pids if is_there(pid)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_hands_back_at_once(
    fleet: Fleet, supervised: Supervised, end: End, number: signal.Signals
):
    pks = fleet.put("tests.worker.tasks.until", "a", str(end()), count=2, max_attempts=1)
    parent = supervised(2, "--max-in-flight", "1")
    fleet.wait_for_run("a", 2)
    os.killpg(parent.pid, number)  # as Ctrl-C at a terminal
    wait_for(lambda: parent.log().count("draining: 1 in flight") == 2, what=parent.log())
    os.killpg(parent.pid, number)
    assert 128 + number == parent.wait()
    assert {("ready", 0)} == {(fleet.job(pk).state, fleet.job(pk).attempt) for pk in pks}


def test_a_signal_to_all_processes_at_once_is_one_stop(
    fleet: Fleet, supervised: Supervised, end: End
):
    go = end()
    pks = fleet.put("tests.worker.tasks.until", "a", str(go), count=2, max_attempts=1)
    parent = supervised(2, "--max-in-flight", "1")
    fleet.wait_for_run("a", 2)
    for pid in [*children(parent.pid), parent.pid]:  # as systemd does
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: parent.log().count("has let go") == 2, what=parent.log())
    go.touch()
    assert 0 == parent.wait()
    assert {"succeeded"} == {fleet.job(pk).state for pk in pks}


def test_a_killed_worker_is_replaced_and_its_job_runs_again(
    fleet: Fleet, supervised: Supervised, end: End
):
    go = end()
    pk = fleet.put_one("tests.worker.tasks.until", "a", str(go))
    parent = supervised(2, "--lease", "2", **fleet.injected(QUICK.format(first=0.3, slack=5)))
    fleet.wait_for_run("a")
    victim = fleet.value("SELECT pid FROM ledger_mark")
    before = set(children(parent.pid))
    os.kill(victim, signal.SIGKILL)
    parent.wait_for_log(f"process {victim} was ended by SIGKILL; the next one starts in 0.3 s")
    wait_for(lambda: parent.log().count("in flight; serves") == 3, what=parent.log())
    assert ({victim}, 2) == (before - set(children(parent.pid)), len(children(parent.pid)))
    go.touch()
    fleet.wait_for_state(pk, "succeeded")
    assert (2, ["rescued"]) == (fleet.job(pk).attempt, fleet.events(pk))
    assert 0 == fleet.stop(parent)


def test_workers_outlive_a_killed_parent_only_to_finish_their_jobs(
    fleet: Fleet, supervised: Supervised, end: End
):
    go = end()
    fleet.put("tests.worker.tasks.until", "a", str(go), count=2, max_attempts=1)
    parent = supervised(2, "--max-in-flight", "1")
    fleet.wait_for_run("a", 2)
    pids = children(parent.pid)
    parent.kill()
    wait_for(lambda: parent.log().count("draining: 1 in flight") == 2, what=parent.log())
    assert 2 == parent.log().count("the parent process has let go")
    go.touch()
    wait_for(lambda: not any(map(is_there, pids)), what=parent.log())
    assert {"succeeded": 2} == fleet.states()
    assert 2 == parent.log().count("stopped: 1 claimed, 1 succeeded")


def test_a_frozen_worker_is_killed_when_its_time_is_over(fleet: Fleet, supervised: Supervised):
    environment = fleet.injected(QUICK.format(first=0.3, slack=2))
    parent = supervised(2, "--drain-timeout", "0.5", **environment)
    frozen, _ = children(parent.pid)
    os.kill(frozen, signal.SIGSTOP)
    parent.term()
    assert 137 == parent.wait()
    assert f"process {frozen} did not end in time: killed" in parent.log()
    assert 1 == parent.log().count("killed")


def test_once_and_max_jobs_are_each_workers_own(fleet: Fleet, supervised: Supervised):
    fleet.put("tests.tasks.ok", count=5)
    parent = fleet.worker("--proc=2", "--once")
    assert 0 == parent.wait()
    assert ({"succeeded": 5}, 2) == (fleet.states(), parent.log().count("stopped: "))
    fleet.put("tests.tasks.ok", count=3)
    parent = supervised(2, "--max-jobs", "1", **fleet.injected(QUICK.format(first=0.1, slack=5)))
    fleet.wait_for_all()
    wait_for(lambda: parent.log().count("ended with status 0; ") == 3, what=parent.log())
    assert 0 == fleet.stop(parent)


def test_each_worker_listens_on_a_port_of_its_own_and_the_parent_on_none(
    fleet: Fleet, supervised: Supervised
):
    metrics, health = 20_000 + os.getpid() % 10_000, 30_000 + os.getpid() % 10_000
    ports = ["--metrics-port", str(metrics), "--health-port", str(health)]
    parent = supervised(2, *ports)
    for each in (metrics, metrics + 1, health, health + 1):
        assert 1 == parent.log().count(f":{each}/")
    assert [] == sockets(parent.pid)
    assert 0 == fleet.stop(parent)


def test_a_database_that_is_refused_ends_all(fleet: Fleet):
    sqlite = "DATABASES['default'] = {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}"
    parent = fleet.worker("--processes", "2", **fleet.settings(sqlite))
    assert 3 == parent.wait()
    assert "all others are stopped" in parent.log()
    assert "Traceback" not in parent.log()


def test_more_processes_than_64_are_refused():
    assert 64 == count("--processes", "64", most=MOST)
    with pytest.raises(UsageError, match=r"--processes is 65\. Set it to .* from 1 to 64"):
        count("--processes", "65", most=MOST)


def test_bad_flags_are_refused_before_anything_is_started(fleet: Fleet):
    for flags, word in (
        (["--processes", "0"], "--processes is 0. Set it to a whole number from 1 to 64."),
        (["--processes=x"], "--processes is 'x'. Set it to"),
        (["--processes", "2", "--max-in-flight", "0"], "--max-in-flight is 0"),
    ):
        parent = fleet.worker(*flags)
        assert 2 == parent.wait()
        assert word in parent.log()
        assert "supervisor" not in parent.log()
        assert 1 == parent.log().count("jobworker: ")


def test_a_changed_file_restarts_all(fleet: Fleet, supervised: Supervised):
    environment = fleet.settings()
    path = fleet.folder / f"{environment['DJANGO_SETTINGS_MODULE']}.py"
    parent = fleet.worker("--rel", "--processes", "2", **environment)
    wait_for(lambda: parent.log().count("in flight; serves") == 2, what=parent.log())
    (supervisor,) = children(parent.pid)
    pids = children(supervisor)
    supervised.seen |= {supervisor, *pids}
    path.write_text(f"{path.read_text()}# changed\n")
    wait_for(lambda: parent.log().count("in flight; serves") == 4, what=parent.log())
    assert not any(map(is_there, [supervisor, *pids]))
    (supervisor,) = children(parent.pid)
    supervised.seen |= {supervisor, *children(supervisor)}
    parent.kill()
    wait_for(lambda: not any(map(is_there, supervised.seen)), what=parent.log())


@pytest.mark.parametrize(
    "words", [["-u", "-X", "utf8", "-W", "ignore::ImportWarning", "manage.py"], ["-m", "django"]]
)
def test_children_are_started_as_their_parent_was(fleet: Fleet, words: list[str]):
    environment = {
        **os.environ,
        **fleet.settings(
            "import os, sys; os.write(1, f'began {sys.orig_argv[1:-3]}\\n'.encode())"
        ),
        "DATABASE_URL": fleet.url(),
        "DJANGO_JOBS_TEST_DATABASE": "fleet",
    }
    ended = subprocess.run(
        [sys.executable, *words, "jobworker", "--once", "--processes=2"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert 3 == ended.stdout.count(f"began {words}")
    assert 2 == ended.stderr.count("stopped: 0 claimed")
