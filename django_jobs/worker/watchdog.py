"""Breaks connections that do not answer, and ends a process that is silent or overdue."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import NoReturn

from django_jobs.worker.connection import PrivateDatabase
from django_jobs.worker.thread import Rounds

logger = logging.getLogger("django_jobs.worker")

SILENT = 75  # exit status: temporary failure, to be restarted
TICK = 0.5


class Watchdog:
    """Sends no statement itself, so it goes on when the database does not."""

    def __init__(
        self,
        *,
        patience: Mapping[PrivateDatabase, float],
        silence: Callable[[], float],
        limit: float,
        overdue: Callable[[], int | None],
    ) -> None:
        """``patience``: seconds a statement may take; ``limit``: of the loop's silence.

        ``overdue`` returns an exit status when the process should have ended already.
        """
        self._overdue = overdue
        self._patience = patience
        self._silence = silence
        self._limit = limit
        self.rounds = Rounds("jobs-watchdog", self.turn, lambda: None)

    def turn(self) -> float:
        """Look once."""
        for database, seconds in self._patience.items():
            database.cut(after=seconds)
        if self._silence() > self._limit:
            logger.critical(
                "the loop has been silent for %.0f s: exit %s", self._silence(), SILENT
            )
            _leave(SILENT)
        if (status := self._overdue()) is not None:
            logger.warning("the database does not answer: what is held is left to lapse")
            _leave(status)
        return TICK


def _leave(status: int) -> NoReturn:
    logging.shutdown()
    os._exit(status)
