"""Look at everything that a fleet rests on, read-only and bounded."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import Error, connections

from django_jobs.conf import InvalidOption
from django_jobs.operations.doctor import configured, fleet, server, storage
from django_jobs.operations.doctor.finding import SECONDS, Check, Exam, Finding, Level
from django_jobs.sql.private import brief

__all__ = ["CHECKS", "Exam", "Finding", "Level", "examine", "storage_findings"]

CHECKS: dict[str, Check] = {
    "settings": configured.settings,
    "migrations": server.migrations,
    "database": server.server,
    "indexes": storage.indexes,
    "autovacuum": storage.vacuum,
    "snapshots": storage.snapshots,
    "workers": fleet.workers,
    "queues": fleet.queues,
    "tasks": fleet.tasks,
    "schedules": fleet.schedules,
    "limits": fleet.limits,
}


def examine(exam: Exam) -> Iterator[Finding]:
    """Yield what each check finds; one that fails takes no other with it."""
    connection = connections[exam.database]
    if connection.vendor != "postgresql":
        sentence = f"The database {exam.database!r} is {connection.display_name}."
        cure = "Name a PostgreSQL alias in OPTIONS['database']."
        yield Finding("database", "error", sentence, cure)
        return
    try:
        connection.ensure_connection()
    except Error as error:
        sentence = f"The database {exam.database!r} does not answer: {brief(error)}"
        yield Finding("database", "error", sentence, "Start it, or correct DATABASES.")
        return
    for name, check in CHECKS.items():
        yield from _checked(exam, name, check)


def storage_findings(exam: Exam) -> Iterator[tuple[str, Finding]]:
    """Yield, for a system check, what is wrong by its code; of a missing database nothing."""
    checks = {"W001": storage.snapshots, "W002": storage.indexes}
    try:
        for code, check in checks.items():
            with exam.bounded():
                found = list(check(exam))
            yield from ((code, finding) for finding in found if finding.level != "ok")
    except Error:  # it does not answer: what connects next tells that better
        return


def _checked(exam: Exam, name: str, check: Check) -> list[Finding]:
    try:
        with exam.bounded():
            return list(check(exam))
    except InvalidOption:
        sentence = "It could not be looked at, for a setting cannot be used."
        return [Finding(name, "warning", sentence, "Correct what settings tells.")]
    except Error as error:  # in its time limit, or for want of a table or a right
        sentence = f"It could not be looked at within {SECONDS:g} s: {brief(error)}"
        return [Finding(name, "warning", sentence, "Ask again when the database has less to do.")]
