"""The workers of a soak, and which of them hold jobs."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping

from benchmarks.processes import Process, Processes, wait_for
from benchmarks.server import Connection, ask

HOLDERS = """
    SELECT w.pid, count(*) FROM django_jobs_lease l JOIN django_jobs_worker w ON w.id = l.worker
    GROUP BY w.pid
"""
LEFT = """
    SELECT count(*) FROM django_jobs_lease l JOIN django_jobs_worker w ON w.id = l.worker
    WHERE w.pid = %s
"""
REGISTERED = "SELECT count(*) FROM django_jobs_worker WHERE state = 'running'"


class Fleet:
    """Worker processes on one database."""

    def __init__(self, processes: Processes, env: Mapping[str, str]) -> None:
        self._processes = processes
        self._env = env
        self.killed: list[Process] = []

    def start(self, count: int = 1) -> None:
        """Start more; return at once."""
        for _ in range(count):
            self._processes.start([sys.executable, "-m", "django", "jobworker"], env=self._env)

    def wait_until_registered(self, connection: Connection, count: int) -> None:
        """Wait until so many can claim."""
        wait_for(
            lambda: ask(connection, REGISTERED) >= count, seconds=60, what="the workers", pause=0.1
        )

    def kill_one(self, connection: Connection, chosen: random.Random) -> int:
        """``kill -9`` one that holds jobs now and start another; return how many it left.

        0: nobody holds any, or the one that did has settled them between look and kill.
        """
        held = dict(connection.execute(HOLDERS.encode()).fetchall())
        holders = [process for process in self._processes.alive() if held.get(process.pid)]
        if not holders:
            return 0
        victim = chosen.choice(holders)
        victim.kill()
        self.killed.append(victim)
        self.start()
        left: int = ask(connection, LEFT, victim.pid)
        return left

    def stop(self) -> list[str]:
        """Drain those that live; return what to say of each worker that did not end well."""
        alive = self._processes.alive()
        for process in alive:
            process.popen.terminate()  # once: a second SIGTERM means at once
        expected = {process.pid: process.wait() for process in alive}
        expected |= dict.fromkeys((process.pid for process in self.killed), 0)
        return [
            f"worker {process.pid} ended with {process.popen.returncode}:\n{process.log()[-3000:]}"
            for process in self._processes.all
            if expected.get(process.pid, 1)
        ]
