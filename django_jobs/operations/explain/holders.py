"""Who has the places of a limit key, and who waits for one."""

from __future__ import annotations

from datetime import datetime

from django_jobs.operations.explain import hosts
from django_jobs.operations.explain.explanation import JobFacts
from django_jobs.operations.explain.limited import COUNTED, Holder, KeyFacts, Use
from django_jobs.operations.explain.words import NAMED
from django_jobs.sql import Row, SiteDatabase


def key_facts(row: Row, *, is_blocked: bool) -> KeyFacts | None:
    """Return what a job's row and its key's say; None: it has no limit.

    A claim goes by an operator's size, else by the job's own; a wake by the last claimed one's.
    """
    key, asked, every, burst, discard, reserved, size, override, in_use, next_at = row
    if key is None:
        return None
    said = size if is_blocked else asked
    return KeyFacts(
        key=key, size=said if override is None else override, every=every, burst=burst or 1,
        discard=discard, reserved_at=reserved, in_use=in_use or 0, next_at=next_at,
    )  # fmt: skip


def use_of(key: KeyFacts, job: JobFacts, *, now: datetime, database: str) -> Use:
    """Return who holds the key, in one statement."""
    params = {
        "key": key.key, "job": job.id, "urgency": -job.priority,
        "named": NAMED, "counted": COUNTED + 1,
    }  # fmt: skip
    rows = SiteDatabase(database).fetch("explain_limit", params)
    waiting, ahead, held = rows[0][:3]
    holders = [_holder(row[3:], now) for row in rows if row[3] is not None]
    return Use(holders=tuple(holders), held=held or 0, waiting=waiting, ahead=ahead)


def _holder(row: Row, now: datetime) -> Holder:
    job, task, until, worker, name, pid, *columns = row
    health = "gone" if name is None else hosts.health_of(columns, now=now)
    label = hosts.label_of(name, pid, worker)
    return Holder(job, task or "", label, health, until)
