"""Delete jobs that have ended, and their history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction

from django_jobs.operations.act import Actor, act, totals
from django_jobs.sql import Row, SiteDatabase


@dataclass(frozen=True, slots=True)
class Purged:
    """How many jobs were deleted, and why others were not: see ``Requeued``."""

    count: int
    refused: dict[int, str]


def purge(ids: Iterable[int], *, actor: Actor, reason: str = "", database: str) -> Purged:
    """Delete jobs in a final state with their events; a live job is never touched.

    A job is judged again under its lock, so one that was requeued in the meantime stays.
    One for which a live job waits is refused as ``live children``.
    Batches and transactions are those of ``requeue``.
    """
    fetch = partial(fetch_purge, database)
    batches = act("purge", ids, actor=actor, reason=reason, database=database, fetch=fetch)
    return Purged(*totals(batches))


def fetch_purge(database: str, verb: str, params: dict[str, Any]) -> list[Row]:
    """Lock, then look: a job that was tied to one of these before is seen, none is after."""
    with transaction.atomic(using=database):
        SiteDatabase(database).fetch("purge_lock", params)
        return SiteDatabase(database).fetch(verb, params)
