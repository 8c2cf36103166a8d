"""An operator's word on the entries of cron: disable, enable, run now."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from django.db import transaction

from django_jobs.conf import InvalidOption, Options, backend_fault, did_you_mean, shown
from django_jobs.conf.cron import CronEntry
from django_jobs.cron import Cron
from django_jobs.exceptions import AlreadyEnqueued, Refused
from django_jobs.operations.act import Actor, recorded
from django_jobs.operations.enqueue import Enqueued, NewJob, enqueue
from django_jobs.operations.scheduled_job import ScheduleFault, announce, scheduled_job
from django_jobs.sql import SiteDatabase


def disable_schedule(name: str, *, actor: Actor, reason: str, backend: str, database: str) -> None:
    """Let no worker fire ``name`` until somebody enables it; its jobs go on.

    In force as soon as it is committed: every firing reads it. Disabling a disabled one says
    anew who and why. Raises Refused, and writes nothing, for a blank reason, or an entry that
    no worker has written down yet.
    """
    if not reason.strip():
        raise Refused("Say why the schedule is disabled: whoever finds it so will ask.")
    params = _recorded("disable", name, actor=actor, reason=reason, backend=backend)
    if not SiteDatabase(database).fetch("disable_schedule", params):
        raise Refused(_unknown(name, backend))


def enable_schedule(
    name: str, *, actor: Actor, reason: str = "", backend: str, database: str
) -> bool:
    """Let ``name`` fire again; return False, and write nothing, when it was not disabled.

    What it was due for until now is not made up for. Raises Refused for an entry that no
    worker has written down yet.
    """
    here = SiteDatabase(database)
    rows = here.fetch("schedule", {"backend": backend, "name": _text(name)})
    if not rows:
        raise Refused(_unknown(name, backend))
    [(schedule, timezone, disabled_at, now)] = rows
    if disabled_at is None:
        return False
    params = _recorded("enable", name, actor=actor, reason=reason, backend=backend)
    params |= {"schedule": schedule, "timezone": timezone, "next": _next(schedule, timezone, now)}
    return bool(here.fetch("enable_schedule", params))


def run_schedule(name: str, *, actor: Actor, reason: str = "", backend: str, database: str) -> int:
    """Enqueue a job for ``name`` now, as this process's settings describe it; return its id.

    When it is due next stays as it is, and a disabled entry can be run too. Raises Refused,
    and writes nothing, for an entry that is not in the settings, a task that cannot be
    enqueued, a unique key that a live job has, and, where overlap is 'skip', while its last
    job is live.
    """
    entry = _entry(name, backend)
    try:
        task, new = scheduled_job(entry, backend=backend)
    except ScheduleFault as fault:
        raise Refused(f"The schedule {name} cannot be run: {fault}") from fault
    params = _recorded("run", name, actor=actor, reason=reason, backend=backend)
    params |= {"alone": entry.overlap == "skip"}
    with transaction.atomic(using=database):
        made = _made(new, backend=backend, database=database)
        rows = SiteDatabase(database).fetch("run_schedule", params | {"job": made.id})
        if not rows:
            raise Refused(
                f"The last job of the schedule {name} is still live, and its overlap is 'skip'. "
                "Wait for that job, or cancel it."
            )
        tell = partial(announce, task, new, made, backend=backend)
        transaction.on_commit(tell, using=database, robust=True)
    return made.id


def _made(new: NewJob, *, backend: str, database: str) -> Enqueued:
    try:
        made = enqueue(new, backend=backend, database=database)
    except AlreadyEnqueued as error:
        raise Refused(str(error)) from error
    if not made.created:
        raise Refused(f"The live job {made.id} has its unique key. Wait for it, or cancel it.")
    return made


def _recorded(
    verb: str, name: str, *, actor: Actor, reason: str, backend: str
) -> dict[str, object]:
    scope = f"schedule {_text(name)} of {backend}"
    told = recorded(f"{verb}_schedule", actor, scope=scope, reason=reason)
    return told | {"backend": backend, "name": name}


def _next(schedule: str, timezone: str, now: datetime) -> datetime | None:
    """Return when the row's own schedule is due next; None: its workers will say.

    A row of another version may hold what this one cannot read.
    """
    try:
        return Cron.read(schedule, ZoneInfo(timezone)).after(now)
    except (ValueError, KeyError, OSError):
        return None


def _entry(name: str, backend: str) -> CronEntry:
    try:
        entry = Options(backend).cron.get(_text(name))
    except InvalidOption as error:
        raise Refused(str(error)) from error
    if entry is None:
        raise Refused(_unknown(name, backend))
    return entry


def _text(name: object) -> str:
    """Return a name that the database can be asked for."""
    if not isinstance(name, str) or not name.isprintable():
        raise Refused(f"{shown(name)} names no schedule.")
    return name


def _unknown(name: str, backend: str) -> str:
    """Say why there is no such schedule, and the cure."""
    fault = backend_fault(backend)
    if fault is not None:
        return fault
    try:
        known = list(Options(backend).cron)
    except InvalidOption as error:
        return str(error)
    if name in known:
        return (
            f"The schedule {name!r} is in the settings, but no worker has written it down yet. "
            "Start a worker with these settings, without --no-cron."
        )
    cure = did_you_mean(name, known) or " Add it to OPTIONS['cron'], or name another."
    return f"TASKS[{backend!r}] has no schedule {name!r}.{cure}"
