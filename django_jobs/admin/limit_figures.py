"""Who holds the keys of a page, and who waits for them, in one statement."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from django.utils.formats import number_format

from django_jobs.sql import Row, SiteDatabase

COUNTED = 100  # jobs that wait for a key: so few are read in order, more are sorted first
NAMED = 5  # of the jobs that hold it


@dataclass(frozen=True, slots=True)
class Holder:
    """A running job that takes a place."""

    job: int
    task: str
    until: datetime
    worker: UUID
    label: str  # of the worker: name:pid, or its id when it has no row


@dataclass(frozen=True, slots=True)
class Figures:
    """How one key fares."""

    waiting: int = 0
    oldest: datetime | None = None
    held: int = 0
    holders: list[Holder] = field(default_factory=list)

    @property
    def unnamed(self) -> int:
        """How many jobs hold it beside those that are named."""
        return self.held - len(self.holders)

    @property
    def waits(self) -> str:
        """How many jobs wait, said no more exactly than they were counted."""
        return f"{COUNTED}+" if self.waiting > COUNTED else number_format(self.waiting)


def figures_of(keys: Collection[str], *, database: str) -> dict[str, Figures]:
    """Return key → how it fares."""
    params = {"keys": sorted(keys), "named": NAMED, "counted": COUNTED + 1}
    rows = SiteDatabase(database).fetch("limit_figures", params)
    return {key: _figures(list(found)) for key, found in groupby(rows, itemgetter(0))}


def _figures(rows: list[Row]) -> Figures:
    _key, waiting, oldest, held, *_more = rows[0]
    holders = [_holder(row[4:]) for row in rows if row[4] is not None]
    return Figures(waiting, oldest, held or 0, holders)


def _holder(row: Row) -> Holder:
    job, task, until, worker, name, pid = row
    label = str(worker) if name is None else f"{name}:{pid}"
    return Holder(job, task or "", until, worker, label)
