"""Entries of cron, their rows, and workers that have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django_jobs.compat import task_backends
from django_jobs.conf.cron import CronEntry, cron_entries
from django_jobs.models import Job, Schedule
from django_jobs.worker.timetable import Timetable
from tests.operations.desk import Desk, desks

EVERY_MINUTE = {"task": "tests.tasks.ok", "schedule": "* * * * *", "timezone": "UTC"}


def entries(**said: dict[str, Any]) -> dict[str, CronEntry]:
    """Return entries of an every-minute task, with what ``said`` changes in each."""
    return cron_entries({name: {**EVERY_MINUTE, **more} for name, more in said.items()}, "cron")


def timetable(desk: Desk, **said: dict[str, Any]) -> Timetable:
    """Return the timetable of a worker that has these entries."""
    return Timetable(
        entries(**said),
        worker=desk.id,
        backend="default",
        database=desk.database,
        tell=lambda call: call(),
    )


@contextmanager
def timetables(*versions: dict[str, dict[str, Any]]) -> Iterator[list[Timetable]]:
    """Workers, started one after the other, each with its version of the entries."""
    with desks(*(f"worker {number}" for number in range(len(versions)))) as made:
        yield [timetable(desk, **said) for desk, said in zip(made, versions, strict=True)]


def row(name: str = "tick") -> Schedule:
    """Return the row of an entry as it is now."""
    return Schedule.objects.get(backend="default", name=name)


def set_row(name: str = "tick", **columns: Any) -> None:
    """Change the row of an entry, as a clock or a hand would."""
    assert 1 == Schedule.objects.filter(backend="default", name=name).update(**columns)


def occurrences(name: str = "tick") -> list[datetime | None]:
    """Return for when jobs were enqueued, in their order."""
    made = Job.objects.filter(schedule=name).order_by("id")
    return list(made.values_list("scheduled_for", flat=True))


def put_cron(settings: Any, **said: dict[str, Any]) -> None:
    """Set the entries of the alias ``default``, every minute unless they say otherwise."""
    default = settings.TASKS["default"]
    cron = {name: {**EVERY_MINUTE, **more} for name, more in said.items()}
    options = {**default.get("OPTIONS", {}), "cron": cron}
    settings.TASKS = {**settings.TASKS, "default": {**default, "OPTIONS": options}}
    task_backends.__dict__.pop("settings", None)
