"""How fast a backlog of no-op jobs is brought to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.environment import FOLDER
from benchmarks.processes import Processes, wait_for
from benchmarks.server import Connection, Server, ask, fresh
from benchmarks.systems import System

LONGEST = 300.0  # seconds for one drain


@dataclass(frozen=True, slots=True)
class Drain:
    """One drain as it was seen from outside."""

    jobs: int
    seconds: float

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds


def drain(
    system: System,
    server: Server,
    template: str,
    *,
    jobs: int,
    cap: int,
    workers: int = 1,
    analysed: bool = True,
    check_more: Callable[[Connection], None] = lambda _watcher: None,
) -> Drain:
    """Fill a fresh database, let ``workers`` at it all at once, stop when all is final.

    The table is locked while they start, so that the clock does not see Python's imports: it
    begins when the lock goes and every worker stands before it with its first claim.
    """
    with fresh(server, template) as dbname, server.connect(dbname) as watcher:
        last = system.fill(server.url(dbname), jobs)
        if analysed:
            watcher.execute("VACUUM (ANALYZE)")
        watcher.execute("CHECKPOINT")
        with Processes(FOLDER / "logs") as processes:
            command = system.worker(server.url(dbname), cap=cap)
            with server.connect(dbname) as gate:
                gate.autocommit = False
                gate.execute(f"LOCK TABLE {system.table} IN ACCESS EXCLUSIVE MODE".encode())
                for _ in range(workers):
                    words = (str(system.environment.python), *command.words)
                    processes.start(words, env=command.env)
                _wait_at_gate(system, watcher, processes, workers)
                gate.commit()
                begun = time.perf_counter()
            _wait_for_end(system, watcher, processes, last)
            seconds = time.perf_counter() - begun
        check(system, watcher, jobs)
        check_more(watcher)
    return Drain(jobs, seconds)


def _wait_at_gate(system: System, watcher: Connection, processes: Processes, workers: int) -> None:
    query = (
        "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted"
        " AND l.relation = %s::regclass AND a.application_name LIKE %s"
    )

    def are_there() -> bool:
        processes.check()
        waiting: int = ask(watcher, query, system.table, system.claimer)
        return waiting >= workers

    wait_for(are_there, seconds=25, what=f"{workers} workers of {system.label}", pause=0.05)


def _wait_for_end(system: System, watcher: Connection, processes: Processes, last: str) -> None:
    """Look at the job that is taken last, which costs nearly nothing, then at all."""

    def has_ended() -> bool:
        if not ask(watcher, system.is_final(), last):
            processes.check()
            return False
        return not ask(watcher, system.unfinished())

    wait_for(has_ended, seconds=LONGEST, what=f"{system.label} to drain")


def check(system: System, watcher: Connection, jobs: int) -> None:
    """Prove by the table that each job ran, and ran once."""
    found = ask(watcher, system.count())
    wrong = ask(watcher, system.wrong())
    if found != jobs or wrong:
        raise AssertionError(f"{system.label}: {found} jobs of {jobs}, {wrong} of them not once")
