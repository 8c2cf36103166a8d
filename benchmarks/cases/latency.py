"""How long it takes from the call of enqueue to the first line of the task."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.environment import FOLDER
from benchmarks.processes import Processes, wait_for
from benchmarks.server import Connection, Server, ask, fresh
from benchmarks.systems import System

REST = 1.0  # seconds in which a started worker comes to rest


def latencies(
    system: System, server: Server, template: str, *, count: int, seed: int
) -> list[float]:
    """Return for each job the seconds from just before its enqueue to its start.

    Both moments are ``time.time()`` on this machine: one in the process that enqueues, one in
    the task (of plain SQL: when the answer of its claim has come).
    """
    with fresh(server, template) as dbname, server.connect(dbname) as watcher:
        url = server.url(dbname)
        with Processes(FOLDER / "logs") as processes:
            python = str(system.environment.python)
            waker = system.waker(url)
            worker = processes.start((python, *waker.words), env=waker.env)
            _wait_until_at_rest(system, watcher, processes)
            enqueuer = system.enqueuer(url, count=count, seed=seed)
            caller = processes.start((python, *enqueuer.words), env=enqueuer.env)
            if caller.popen.wait(count * 0.2 + 60):
                raise RuntimeError(f"{system.label} could not enqueue:\n{caller.log()}")
            wait_for(
                lambda: not ask(watcher, system.unfinished()), seconds=30, what="the last job"
            )
            worker.kill()
        starts = dict(watcher.execute(system.starts().encode()).fetchall())
        return _between(caller.log_path, starts)


def _between(printed: Path, starts: dict[str, float]) -> list[float]:
    calls: dict[str, float] = json.loads(printed.read_text().splitlines()[-1])
    return [starts[job] - called for job, called in calls.items()]


def _wait_until_at_rest(system: System, watcher: Connection, processes: Processes) -> None:
    """Wait until the session that claims has done so, and has slept for a while."""
    query = (
        "SELECT coalesce(bool_or(state LIKE 'idle%%' OR %s), false) FROM pg_stat_activity"
        " WHERE application_name LIKE %s"
        " AND backend_start < clock_timestamp() - %s * interval '1 second'"
    )
    polls = system.name == "tasks_db"  # it never sleeps

    def rests() -> bool:
        processes.check()
        return bool(ask(watcher, query, polls, system.claimer, REST))

    wait_for(rests, seconds=30, what=f"{system.label} to start", pause=0.1)
