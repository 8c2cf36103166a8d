"""How many enqueues many clients commit while workers sleep and wake beside them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.environment import FOLDER
from benchmarks.processes import Processes, wait_for
from benchmarks.server import Connection, Server, ask, fresh
from benchmarks.systems import ours

CLIENTS, PROCESSES = 64, 4
WORKERS = 4  # so many that one of them sleeps while others are at work
CAP = 50
WARM = 1.0  # seconds before the clock begins
UNHEARD = """
    CREATE FUNCTION awake() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.idle := false; RETURN NEW; END $$;
    CREATE TRIGGER awake BEFORE INSERT OR UPDATE ON django_jobs_worker
        FOR EACH ROW EXECUTE FUNCTION awake();
"""
# Those who wait for the lock that a NOTIFY holds over all databases until its commit.
WAITERS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'object'"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What the clients did in the seconds of the clock."""

    rate: float  # enqueues a second
    waiters: float  # sessions that waited for another's NOTIFY, on average
    rings: int  # bells of all clients, since the start

    def __str__(self) -> str:
        """Say it in one line of progress."""
        return (
            f"{self.rate:,.0f} enqueues/s, {self.rings} bells,"
            f" {self.waiters:.2f} sessions waited for a bell"
        )


def enqueued(server: Server, template: str, *, heard: bool, seconds: float) -> Enqueued:
    """Let 64 sessions commit one enqueue after the other beside workers.

    ``heard``: the workers listen, and clients ring for those that sleep; else nobody does.
    """
    with fresh(server, template) as dbname, server.connect(dbname) as watcher:
        url = server.url(dbname)
        watcher.execute("LISTEN django_jobs")
        with Processes(FOLDER / "logs") as processes:
            python = str(ours.SYSTEM.environment.python)
            worker = ours.SYSTEM.worker(url, cap=CAP)
            words = worker.words
            if not heard:
                words = (*words, "--no-listen")
                watcher.execute(UNHEARD)
            for _ in range(WORKERS):
                processes.start((python, *words), env=worker.env)
            for _ in range(PROCESSES):
                words = ("-m", "benchmarks.sites.ours", "clients", str(CLIENTS // PROCESSES))
                processes.start((python, *words), env=ours.variables(url))
            wait_for(lambda: _sessions(watcher) >= CLIENTS, seconds=60, what=f"{CLIENTS} clients")
            time.sleep(WARM)
            begun = ask(watcher, "SELECT clock_timestamp()")
            waiters = _watched(server, seconds)
            ended = ask(watcher, "SELECT clock_timestamp()")
            processes.check()
        query = "SELECT count(*) FROM django_jobs_job WHERE enqueued_at BETWEEN %s AND %s"
        rate = ask(watcher, query, begun, ended) / (ended - begun).total_seconds()
        rings = sum(1 for _ in watcher.notifies(timeout=0))
    return Enqueued(rate, waiters, rings)


def _sessions(watcher: Connection) -> int:
    """Count the sessions that have enqueued."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND query LIKE 'WITH made AS%'"
    )
    found: int = ask(watcher, query)
    return found


def _watched(server: Server, seconds: float) -> float:
    """Wait; return how many sessions waited for a NOTIFY whenever it looked."""
    seen: list[int] = []
    deadline = time.monotonic() + seconds
    with server.connect() as connection:
        while time.monotonic() < deadline:
            seen.append(ask(connection, WAITERS))
            time.sleep(0.05)
    return sum(seen) / len(seen)
