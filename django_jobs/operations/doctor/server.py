"""Is the server in order: its version, migrations, clock, connections, notifications?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from django_jobs.operations.doctor.finding import Exam, Finding, span

OLDEST = 14  # PostgreSQL's major version
CLOCK_SECONDS = 2.0  # apart
NOTIFICATIONS = (0.1, 0.5)  # of the queue, for a warning and an error
SPARE = 3  # connections below which it is an error


def migrations(exam: Exam) -> Iterator[Finding]:
    """Look for migrations that have not been applied, and for those of newer code."""
    executor = MigrationExecutor(connections[exam.database])
    graph = executor.loader.graph
    leaves = [key for key in graph.leaf_nodes() if key[0] == "django_jobs"]
    missing = [each.name for each, _ in executor.migration_plan(leaves)]
    applied = {name for app, name in executor.loader.applied_migrations if app == "django_jobs"}
    newer = sorted(applied - {name for app, name in graph.nodes if app == "django_jobs"})
    command = f"manage.py migrate django_jobs --database {exam.database}"
    if missing:
        sentence = f"Migrations of django_jobs are missing: {', '.join(missing)}."
        yield Finding("migrations", "error", sentence, f"Run: {command}", {"missing": missing})
    elif newer:
        sentence = f"The tables are of newer code than this process: {', '.join(newer)}."
        yield Finding(
            "migrations", "warning", sentence, "Deploy that code here.", {"newer": newer}
        )
    else:
        yield Finding("migrations", "ok", "All migrations of django_jobs are applied.")


def server(exam: Exam) -> Iterator[Finding]:
    """Ask one row of the server, and judge each figure of it."""
    begun = time.time()
    [row] = exam.fetch("doctor_server")
    middle, trip = (begun + time.time()) / 2, time.time() - begun
    version, number, standby, _, used, most, taken, clock = row
    yield _version(version, number, standby=standby)
    yield _clock(clock.timestamp() - middle, trip)
    yield _notifications(used)
    yield _connections(most - taken, most, exam.options.max_in_flight)


def _version(version: str, number: int, *, standby: bool) -> Finding:
    facts = {"version": version, "standby": standby}
    if number // 10_000 < OLDEST:
        sentence = f"The server is PostgreSQL {version}; django_jobs needs {OLDEST} or later."
        return Finding("database", "error", sentence, "Upgrade the server.", facts)
    if standby:
        sentence = f"PostgreSQL {version} answers, but it is a standby: no job can be claimed."
        cure = "Let the alias lead to the primary server; --database names another one."
        return Finding("database", "error", sentence, cure, facts)
    return Finding("database", "ok", f"PostgreSQL {version} answers.", "", facts)


def _clock(apart: float, trip: float) -> Finding:
    """Judge the difference beyond what the round trip leaves unknown."""
    facts = {"seconds": round(apart, 3), "round_trip_seconds": round(trip, 3)}
    if abs(apart) - trip / 2 < CLOCK_SECONDS:
        sentence = f"This host's clock and the database's are {abs(apart):.1f} s apart."
        return Finding("clock", "ok", sentence, "", facts)
    way = "behind" if apart > 0 else "ahead of"
    sentence = f"This host's clock is {span(abs(apart))} {way} the database's."
    cure = "Let NTP set both: times that the site reckons itself, such as run_after, are off."
    return Finding("clock", "warning", sentence, cure, facts)


def _notifications(used: float) -> Finding:
    facts = {"ratio": used}
    warning, error = NOTIFICATIONS
    sentence = f"The server's queue of notifications is {used:.0%} full."
    if used < warning:
        return Finding("notifications", "ok", sentence, "", facts)
    cure = (
        "Some session listens and stays in a transaction; end it. "
        "When the queue is full, transactions that enqueue jobs fail at their commit."
    )
    return Finding("notifications", "error" if used >= error else "warning", sentence, cure, facts)


def _connections(left: int, most: int, in_flight: int) -> Finding:
    needed = 5 + in_flight
    facts = {"left": left, "most": most, "worker_needs": needed}
    sentence = f"{max(left, 0)} of {most} connections are left."
    if left >= needed:
        return Finding("connections", "ok", sentence, "", facts)
    sentence = f"{sentence[:-1]}; one more worker may need {needed}."
    cure = "Raise max_connections, lower max_in_flight, or put a pooler before the site."
    return Finding("connections", "error" if left < SPARE else "warning", sentence, cure, facts)
