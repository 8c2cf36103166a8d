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


def tune(server: Server, template: str, *, jobs: int, repetitions: int) -> dict[TasksDB, float]:
    """Return candidate → its median rate, the candidates taking turns."""
    rates: dict[TasksDB, list[float]] = {candidate: [] for candidate in CANDIDATES}
    for _ in range(repetitions):
        for candidate, found in rates.items():
            found.append(drain(candidate, server, template, jobs=jobs, cap=1).rate)
            say(f"tuning: {candidate.setting()}: {found[-1]:,.0f} jobs/s")
    return {candidate: middle(found) for candidate, found in rates.items()}


def best(rates: dict[TasksDB, float]) -> TasksDB:
    """Return the fastest."""
    return max(rates, key=lambda candidate: rates[candidate])
