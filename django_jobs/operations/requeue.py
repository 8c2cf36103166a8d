"""Give jobs that have ended a new life."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import DatabaseError, transaction

from django_jobs.operations.act import LOCKED, Actor, act, totals
from django_jobs.sql import Row, SiteDatabase, array

PATIENCE = "100ms"  # for a key that an open transaction may be about to take
KEYED = "keyed"  # what the statement says of jobs that need it
KEY_TAKEN = "unique key taken"
REFUSALS = {"23505": KEY_TAKEN, "55P03": LOCKED}  # unique_violation, lock_not_available


@dataclass(frozen=True, slots=True)
class Requeued:
    """How many jobs were requeued, and why others were not.

    A refusal is the state of a live job, ``not found``, ``locked`` (somebody else was
    changing it, or enqueueing its key), ``too many lives``, or ``unique key taken`` (by a
    live job, which may be one of this very requeue: of those with one key the first).
    """

    count: int
    refused: dict[int, str]


def requeue(ids: Iterable[int], *, actor: Actor, reason: str = "", database: str) -> Requeued:
    """Make jobs in a final state ready again: attempt 0, a new life, their history kept.

    Nothing waits for a lock, so of two operators each job obeys one; a unique key that an
    open transaction holds is waited for a tenth of a second. A job that has ended
    holds no lease: what a worker still believes about its last run is refused by the fence.
    In autocommit every thousand jobs are a transaction of their own; in a caller's
    transaction, which ATOMIC_REQUESTS makes, all of them commit with it. Workers that
    sleep are woken after the commit.
    """
    fetch = partial(_fetch, database=database)
    batches = act("requeue", ids, actor=actor, reason=reason, database=database, fetch=fetch)
    return Requeued(*totals(batches, ring=database))


def _fetch(verb: str, params: dict[str, Any], *, database: str) -> list[Row]:
    """Send the statement, and another for the jobs with unique keys, if there are any."""
    rows = SiteDatabase(database).fetch(verb, {**params, "keyed": False})
    keyed = [row[0] for row in rows if row[4] == KEYED]
    if not keyed:
        return rows
    rest = [row for row in rows if row[4] != KEYED]
    return rest + _keyed(verb, keyed, _recorded(params, rest), database=database)


def _keyed(verb: str, ids: list[int], params: dict[str, Any], *, database: str) -> list[Row]:
    """Requeue jobs with unique keys at once; where a race is lost, one by one."""
    try:
        return _patiently(verb, ids, params, database=database)
    except DatabaseError as error:
        refused = REFUSALS.get(getattr(error.__cause__, "sqlstate", ""))
        if refused is None:
            raise
        if len(ids) == 1:
            return [(ids[0], None, None, None, refused)]
    rows: list[Row] = []
    for pk in ids:
        rows += _keyed(verb, [pk], _recorded(params, rows), database=database)
    return rows


def _patiently(verb: str, ids: list[int], params: dict[str, Any], *, database: str) -> list[Row]:
    site = SiteDatabase(database)
    with transaction.atomic(using=database):  # undone alone, and the caller's goes on
        [(usual, _)] = site.fetch("patience", {"timeout": PATIENCE})
        rows = site.fetch(verb, {**params, "ids": array(ids), "keyed": True})
        site.fetch("patience", {"timeout": usual})
        return rows


def _recorded(params: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    """Let what follows be added to the record that was begun, if one was."""
    begun = [row[1] for row in rows if row[1] is not None]
    return {**params, "activity": begun[0]} if begun else params
