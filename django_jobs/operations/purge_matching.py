"""Purge all jobs of a state that ended long ago: an operator's act, batch after batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django_jobs.operations.act import BATCH, Actor, answers, recorded
from django_jobs.operations.purge import fetch_purge
from django_jobs.operations.purge_old import Place
from django_jobs.sql import SiteDatabase, array
from django_jobs.states import FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Jobs that had ended at a moment; a later one is not meant, however long it takes."""

    state: str
    before: datetime
    backend: str
    queue: str | None = None
    task: str | None = None

    def in_words(self) -> str:
        """Say which, for the record."""
        words = f"{self.state} jobs of {self.backend} that ended before {self.before:%F %T%z}"
        words += f", queue {self.queue}" if self.queue else ""
        return words + (f", task {self.task:.200}" if self.task else "")


@dataclass(frozen=True, slots=True)
class Matching:
    """What there is to purge."""

    count: int
    oldest: datetime | None
    newest: datetime | None


@dataclass(slots=True)
class Progress:
    """What has been done so far."""

    count: int = 0
    refused: dict[int, str] = field(default_factory=dict)  # see ``Purged``
    activity: int | None = None
    place: Place = Place()  # noqa: RUF009 - a value; jobs that ended before were looked at


def long_ago(seconds: float, *, database: str) -> datetime:
    """Return the moment that is ``seconds`` ago by the database's clock."""
    now: datetime
    [(now,)] = SiteDatabase(database).fetch("clock", {})
    return now - timedelta(seconds=seconds)


def matching(which: Which, *, database: str) -> Matching:
    """Count them all, one by one: a second or so for a million."""
    return Matching(*SiteDatabase(database).fetch("purge_count", asdict(which))[0])


def purge_matching(
    which: Which, *, actor: Actor, reason: str = "", database: str
) -> Iterator[Progress]:
    """Purge them, the oldest first; yield after each batch how far it has come.

    Each batch is a transaction of its own with its part of the record: whoever stops asking
    for more has lost nothing. A job is judged as by ``purge``, whose statement it is.
    """
    if which.state not in FINAL:
        msg = f"A {which.state} job is live: it can be cancelled, not purged."
        raise ValueError(msg)
    done = Progress()
    params = recorded("purge", actor, scope=which.in_words(), reason=reason)
    params |= {"final": sorted(FINAL), "activity": None}
    has_more = True
    while has_more:
        query = {**asdict(which), "after": done.place.at, "limit": BATCH}
        query["passed"] = array(sorted(done.place.passed))
        [(ids, seen, until, last)] = SiteDatabase(database).fetch("purge_which", query)
        gone = _purge(ids, params, done, database=database) if ids else []
        done.place = done.place.onwards(until, {*last} - {*gone})
        has_more = seen == BATCH
        yield done


def _purge(ids: list[int], params: dict[str, Any], done: Progress, *, database: str) -> list[int]:
    """Purge those of a batch that may go, and return them."""
    batch = answers(fetch_purge(database, "purge", {**params, "ids": array(ids)}))
    params["activity"] = done.activity = batch.activity or params["activity"]
    done.count += len(batch.changed)
    done.refused |= batch.refused
    return batch.changed
