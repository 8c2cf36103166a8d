"""Leave a queue's jobs unclaimed until somebody resumes it, or until a time."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.utils import timezone

from django_jobs.conf import shown
from django_jobs.exceptions import Refused
from django_jobs.operations.act import Actor, recorded
from django_jobs.operations.queue_known import require_queue
from django_jobs.sql import SiteDatabase
from django_jobs.tasks.faults import YEARS


def pause(
    queue: str,
    *,
    backend: str,
    actor: Actor,
    reason: str,
    until: datetime | None = None,
    database: str,
) -> None:
    """Let no worker claim jobs of ``queue``; what runs goes on.

    It is in force as soon as it is committed: every claim reads it. Pausing a paused queue
    says anew who, why and until when. Raises Refused, and writes nothing, for a queue that
    nobody knows, a blank reason, or an end that is not in the future by the database's clock.
    """
    if not reason.strip():
        raise Refused("Say why the queue is paused: whoever finds it so will ask.")
    until = _end(until)
    require_queue(queue, backend=backend, database=database)
    where = f"queue {queue} of {backend}"
    scope = where if until is None else f"{where} until {until:%Y-%m-%d %H:%M:%S} UTC"
    params = recorded("pause", actor, scope=scope, reason=reason)
    params |= {"backend": backend, "queue": queue, "until": until}
    if not SiteDatabase(database).fetch("pause", params):
        end = f"{until:%Y-%m-%d %H:%M:%S} UTC"
        raise Refused(f"The end, {end}, is not in the future. Name a later time, or none.")


def _end(until: object) -> datetime | None:
    if until is None:
        return None
    if not isinstance(until, datetime) or until.year not in YEARS:
        low, high = YEARS[0], YEARS[-1]
        raise Refused(f"until={shown(until)} must be a datetime of the years {low} to {high}.")
    if timezone.is_naive(until):
        if settings.USE_TZ:
            raise Refused(f"until={shown(until)} has no time zone. Give it one.")
        until = timezone.make_aware(until)
    return until.astimezone(UTC)
