"""What is wrong with schedules, as far as this process can tell."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_jobs.admin.aliases import jobs_database
from django_jobs.admin.schedule_figures import Settings, Stand, is_late, standing
from django_jobs.conf.cron import CronEntry
from django_jobs.operations.scheduled_job import ScheduleFault, scheduled_job

COLUMNS = ("task", "schedule", "timezone", "queue", "catch_up", "overlap", "enabled")
NAMED = 10  # schedules in one sentence


class Warned(NamedTuple):
    """One sentence, and what to run about it."""

    text: str
    command: str = ""


def command(backend: str) -> str:
    """Return what starts a worker that fires the schedules of a backend."""
    more = [] if backend == "default" else ["--backend", backend]
    return shlex.join(["python", "manage.py", "jobworker", *more])


# Of all


def of_all(rows: list[Stand], settings: Settings, fired: Collection[str]) -> Iterator[Warned]:
    """Yield what stands above the list: who does not fire, and what is not written down."""
    for backend, found in groupby(rows, attrgetter("backend")):
        yield from _unfired(backend, [row for row in found if row.fires], fired)
    for backend in settings.backends:
        if fault := settings.of(backend).fault:
            yield Warned(fault)
        yield from _unwritten(backend, settings.unwritten(backend, rows))


def _unfired(backend: str, rows: list[Stand], fired: Collection[str]) -> Iterator[Warned]:
    late = [row for row in rows if row.is_late]
    if backend in fired:
        yield from _late(late)
    elif rows:
        yield Warned(_nobody(backend, len(rows), len(late)), command(backend))


def _nobody(backend: str, count: int, late: int) -> str:
    if late:
        text = ngettext(
            "No worker fires the schedules of %(backend)s: %(count)d schedule is late.",
            "No worker fires the schedules of %(backend)s: %(count)d schedules are late.", late,
        )  # fmt: skip
        return text % {"backend": backend, "count": late}
    text = ngettext(
        "No worker fires the schedules of %(backend)s: %(count)d schedule waits for its time.",
        "No worker fires the schedules of %(backend)s: %(count)d schedules wait for their time.",
        count,
    )
    return text % {"backend": backend, "count": count}


def _late(rows: list[Stand]) -> Iterator[Warned]:
    if rows:
        text = ngettext(
            "%(names)s is late although a live worker fires schedules: its page says more.",
            "%(names)s are late although a live worker fires schedules: their pages say more.",
            len(rows),
        )
        yield Warned(text % {"names": _named(row.name for row in rows)})


def _unwritten(backend: str, names: list[str]) -> Iterator[Warned]:
    if names:
        text = ngettext(
            "%(names)s is in the settings, and no worker has written it down yet.",
            "%(names)s are in the settings, and no worker has written them down yet.", len(names),
        )  # fmt: skip
        yield Warned(text % {"names": _named(names)}, command(backend))


def _named(names: Iterable[str]) -> str:
    found = list(names)
    more = len(found) - NAMED
    listed = _(", ").join(found[:NAMED])
    return listed if more <= 0 else _("%(names)s and %(more)d more") % {
        "names": listed, "more": more,
    }  # fmt: skip


# Of one


def of_one(schedule: Any, settings: Settings, fired: Collection[str]) -> Iterator[Warned]:
    """Yield what is wrong with one. The site's own code may be called: its keys, its task."""
    if standing(schedule) == "removed":
        return
    yield from _firing(schedule, fired)
    if schedule.reading.fault:
        text = _("This process cannot read it, so here it never fires: %s.")
        yield Warned(text % schedule.reading.fault)
    yield from _version(schedule, settings)


def _firing(schedule: Any, fired: Collection[str]) -> Iterator[Warned]:
    if standing(schedule) != "enabled":
        return
    if schedule.backend not in fired:
        text = _("No live worker fires the schedules of %s.") % schedule.backend
        yield Warned(text, command(schedule.backend))
    elif is_late(schedule):
        yield Warned(
            _("It is late although a live worker fires schedules. That worker has another "
              "version of it, or cannot enqueue its job: the worker's log says which.")
        )  # fmt: skip


def _version(schedule: Any, settings: Settings) -> Iterator[Warned]:
    entry: CronEntry | None = schedule.entry
    if fault := settings.of(schedule.backend).fault:
        yield Warned(fault)
    elif entry is None:
        text = _("The settings of this process do not have it: it cannot be run from here.")
        yield Warned(text)
    else:
        yield from _entry(schedule, entry)


def _entry(schedule: Any, entry: CronEntry) -> Iterator[Warned]:
    if entry.digest != schedule.digest:
        text = _("This process has another version of it than the one written down here. "
                 "What differs: %s.")  # fmt: skip
        yield Warned(text % _(", ").join(_differing(schedule, entry)))
    try:
        with transaction.atomic(using=jobs_database()):  # a statement of the site's may fail
            scheduled_job(entry, backend=schedule.backend)
    except ScheduleFault as fault:
        yield Warned(_("Nothing can be enqueued for it here: %s") % fault)


def _differing(schedule: Any, entry: CronEntry) -> list[str]:
    names = [name for name in COLUMNS if getattr(schedule, name) != getattr(entry, name)]
    return names or [_("what its row does not hold, such as its arguments")]
