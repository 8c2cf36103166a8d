"""Purges what is older than the settings keep it, in the pauses of the sweeper."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from random import uniform
from time import monotonic

from django_jobs.conf.retention import EVENTS
from django_jobs.operations.purge_old import BATCH, Place, due, purge_events, purge_old
from django_jobs.sql.private import brief
from django_jobs.worker.connection import HARMLESS, REFUSED, PrivateDatabase

logger = logging.getLogger("django_jobs.worker")

LOOK_EVERY = 60.0  # seconds between two looks while nothing is due
ANEW_EVERY = 600.0  # until what was passed over is looked at again
BUDGET = 0.05  # seconds of purging between two looks of the sweeper
REST = 9.0  # times as long as was purged: the claims shall not feel it
LEAST_REST = 0.1
SMALLEST = 10


class Retention:
    """Used by the sweeper's thread alone; any number of workers do the same.

    Each passes over what another has locked, and one that finds nothing but locked rows
    leaves the round to the other.
    """

    def __init__(
        self, ages: Mapping[str, float | None], *, backend: str, database: PrivateDatabase
    ) -> None:
        """``ages``: state, or ``events`` → seconds for which it is kept; None: for ever."""
        self._ages = {key: age for key, age in ages.items() if age is not None and key != EVENTS}
        self._events = ages.get(EVENTS)
        self._backend = backend
        self._database = database
        self._limit = BATCH
        self._due: list[str] = []
        self._places: dict[str, Place] = {}  # up to where a state has been purged
        self._anew_at = monotonic() + ANEW_EVERY
        self._gone: Counter[str] = Counter()  # of this round
        self._at = monotonic()  # the next turn

    def turn(self) -> float:
        """Purge for a moment, if it is time and there is something; return the pause."""
        if (left := self._at - monotonic()) > 0:
            return left
        self._at = monotonic() + LOOK_EVERY  # also after a failure
        if not self._due:
            self._look()
        begun = monotonic()
        while self._due and monotonic() - begun < BUDGET:
            self._purge(self._due[0])
        if self._due:
            self._at = monotonic() + max((monotonic() - begun) * REST, LEAST_REST)
        else:
            self._end_round()
        return self._at - monotonic()

    def _look(self) -> None:
        if monotonic() > self._anew_at:
            self._anew_at = monotonic() + ANEW_EVERY
            self._places.clear()
        if not self._ages and self._events is None:
            return
        self._due = due(
            self._ages,
            places=self._places,
            events=self._events,
            backend=self._backend,
            database=self._database,
        )

    def _purge(self, what: str) -> None:
        """Purge one batch; forget about ``what`` when it was the last of this round."""
        begun = monotonic()
        try:
            has_more = self._purge_events() if what == EVENTS else self._purge_jobs(what)
        except (*REFUSED, *HARMLESS) as error:  # the other states, and the next round, go on
            logger.error("old jobs cannot be purged (%s): %s", what, brief(error))  # noqa: TRY400
            has_more = False
        took = monotonic() - begun
        self._limit = (
            max(self._limit // 2, SMALLEST) if took > BUDGET else min(self._limit * 2, BATCH)
        )
        if not has_more and what in self._due:
            self._due.remove(what)

    def _purge_events(self) -> bool:
        assert self._events is not None
        limit = self._limit
        gone = purge_events(age=self._events, limit=limit, database=self._database)
        self._gone[EVENTS] += gone
        return gone == limit

    def _purge_jobs(self, state: str) -> bool:
        limit = self._limit
        batch = purge_old(
            state,
            age=self._ages[state],
            place=self._places.get(state, Place()),
            limit=limit,
            backend=self._backend,
            transaction=self._database.connection().transaction(),
            database=self._database,
        )
        self._gone[state] += batch.gone
        self._places[state] = batch.place
        if batch.seen and not batch.held:
            self._due.clear()  # another worker is at it
        return batch.seen == limit

    def _end_round(self) -> None:
        self._at = monotonic() + LOOK_EVERY * uniform(0.8, 1.2)  # noqa: S311 - not all at once
        if counts := +self._gone:
            words = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            logger.info("purged what was kept long enough: %s", words)
        self._gone.clear()
