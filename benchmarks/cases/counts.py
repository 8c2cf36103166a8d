"""Statements and commits a job, counted while nothing is timed."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.cases.drain import check
from benchmarks.environment import FOLDER
from benchmarks.processes import Processes, wait_for
from benchmarks.server import Server, ask, fresh, statements
from benchmarks.systems import System


@dataclass(frozen=True, slots=True)
class Counts:
    """What one worker sent to bring its jobs to their end, its own start included."""

    jobs: int
    statements: int
    commits: int

    @property
    def statements_per_job(self) -> float:
        """Statements in the server's log."""
        return self.statements / self.jobs

    @property
    def commits_per_job(self) -> float:
        """Transactions, those that only read among them."""
        return self.commits / self.jobs


def count(system: System, server: Server, template: str, *, jobs: int, cap: int) -> Counts:
    """Drain once on a server that counts.

    Its log tells the statements. The commits are the difference of ``xact_commit`` without
    what the harness itself has committed meanwhile; autovacuum is off.
    """
    with fresh(server, template) as dbname:
        last = system.fill(server.url(dbname), jobs)
        server.log_statements(dbname)
        before = server.commits(dbname)
        looks = _drain(system, server, dbname, last, cap)
        commits = server.commits(dbname) - before - looks
        sent = statements(server.log_path, dbname=dbname)
        with server.connect(dbname) as watcher:
            check(system, watcher, jobs)
    return Counts(jobs, len(sent), commits)


def _drain(system: System, server: Server, dbname: str, last: str, cap: int) -> int:
    """Run a worker until all is final; return how many transactions that look took."""
    looks = 0
    with server.connect(dbname) as watcher, Processes(FOLDER / "logs") as processes:
        command = system.worker(server.url(dbname), cap=cap)
        words = (str(system.environment.python), *command.words)
        worker = processes.start(words, env=command.env)

        def has_ended() -> bool:
            nonlocal looks
            processes.check()
            looks += 1
            return bool(ask(watcher, system.is_final(), last))

        wait_for(has_ended, seconds=300, what=f"{system.label} to drain", pause=0.05)
        wait_for(lambda: not ask(watcher, system.unfinished()), seconds=30, what="the rest")
        worker.kill()  # what it sends when it has nothing to do is another measurement
    return looks + 1
