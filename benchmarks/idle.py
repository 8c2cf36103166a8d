"""``python -m benchmarks.idle``: what a worker costs that has nothing to do.

After 200 jobs and 20 s of rest: at most 60 statements in 60 s by the server's log, all threads
of the worker together, and less than 70 MB of memory in its one process.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter

import psutil

from benchmarks.environment import FOLDER
from benchmarks.figures import Target
from benchmarks.processes import Process, Processes, wait_for
from benchmarks.progress import say
from benchmarks.server import Server, ask, statements
from benchmarks.systems.ours import SYSTEM

JOBS = 200
MOST_STATEMENTS = 60  # a minute
MOST_MEGABYTES = 70.0
MEGABYTE = 1_000_000


def arguments(words: list[str]) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(prog="python -m benchmarks.idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to count")
    parser.add_argument("--rest", type=float, default=20.0, help="seconds before that")
    return parser.parse_args(words)


def measure(server: Server, *, seconds: float, rest: float) -> tuple[Counter[str], float]:
    """Return statements by the thread that sent them, and the process's memory in MB."""
    dbname = server.create(name="idle")
    SYSTEM.prepare(server.url(dbname))
    server.log_statements(dbname)
    with Processes(FOLDER / "logs") as processes:
        command = SYSTEM.worker(server.url(dbname), cap=6)
        words = (str(SYSTEM.environment.python), *command.words)
        worker = processes.start(words, env=command.env)
        _work(server, dbname, processes)
        say(f"{JOBS} jobs are done; {rest:g} s of rest")
        time.sleep(rest)
        start = server.log_path.stat().st_size
        say(f"counting for {seconds:g} s")
        time.sleep(seconds)
        processes.check()
        sent = statements(server.log_path, dbname=dbname, start=start)
        return Counter(sent), _memory(worker)


def _work(server: Server, dbname: str, processes: Processes) -> None:
    SYSTEM.fill(server.url(dbname), JOBS)
    with server.connect(dbname) as watcher:

        def are_done() -> bool:
            processes.check()
            return not ask(watcher, SYSTEM.unfinished())

        wait_for(are_done, seconds=60, what="the jobs", pause=0.1)


def _memory(worker: Process) -> float:
    """Return the resident memory of the worker, which must be one process."""
    process = psutil.Process(worker.pid)
    if process.children():
        raise AssertionError("a worker is one process")
    resident: int = process.memory_info().rss
    return resident / MEGABYTE


def main(words: list[str]) -> int:
    """Measure and print; return 1 when it costs too much."""
    given = arguments(words)
    SYSTEM.environment.make()
    with Server() as server:
        sent, memory = measure(server, seconds=given.seconds, rest=given.rest)
    minute = sent.total() * 60 / given.seconds
    targets = [
        Target("statements in 60 s", "at most", MOST_STATEMENTS, minute),
        Target("memory of the process, MB", "at most", MOST_MEGABYTES, memory),
    ]
    for name, count in sorted(sent.items()):
        print(f"{count:4} statements of {name or 'a session without a name'}")
    print("\n".join(map(str, targets)))
    return 0 if all(target.met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
