"""Which settings of django-tasks-db drain fastest; the others are compared with that one."""

from __future__ import annotations

from benchmarks.cases.drain import drain
from benchmarks.figures import middle
from benchmarks.progress import say
from benchmarks.server import Server
from benchmarks.systems.tasks_db import TasksDB

CANDIDATES = (
    TasksDB(persistent=False, every_queue=False, quiet=False),  # as it comes
    TasksDB(every_queue=False, quiet=False),
    TasksDB(quiet=False),
    TasksDB(),
    TasksDB(server_binding=True),
)


Rates = dict[TasksDB, list[float]]


def tune(server: Server, template: str, *, jobs: int, repetitions: int) -> Rates:
    """Return candidate → its rates, the candidates taking turns."""
    rates: Rates = {candidate: [] for candidate in CANDIDATES}
    for _ in range(repetitions):
        for candidate, found in rates.items():
            found.append(drain(candidate, server, template, jobs=jobs, cap=1).rate)
            say(f"tuning: {candidate.setting()}: {found[-1]:,.0f} jobs/s")
    return rates


def best(rates: Rates) -> TasksDB:
    """Return the one with the highest median."""
    return max(rates, key=lambda candidate: middle(rates[candidate]))
