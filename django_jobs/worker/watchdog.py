"""Breaks connections that do not answer, and ends a process that is silent or overdue."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from typing import NoReturn

from django_jobs.worker.connection import PrivateDatabase
from django_jobs.worker.thread import Rounds

logger = logging.getLogger("django_jobs.worker")

SILENT = 75  # exit status: temporary failure, to be restarted
TICK = 0.5
LAST_SECONDS = 2.0  # for the line that says why: a lock of the log may be what the loop waits for


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
            _leave(
                SILENT,
                lambda: logger.critical(
                    "the loop has been silent for %.0f s: exit %s", self._silence(), SILENT
                ),
            )
        if (status := self._overdue()) is not None:
            _leave(
                status,
                lambda: logger.warning(
                    "the database does not answer: what is held is left to lapse"
                ),
            )
        return TICK


def _leave(status: int, say: Callable[[], None]) -> NoReturn:
    """Exit, and say why, unless the log is what does not answer."""

    def last_words() -> None:
        say()
        logging.shutdown()

    thread = Thread(target=last_words, name="jobs-last-words", daemon=True)
    with suppress(RuntimeError):  # no thread to be had
        thread.start()
        thread.join(LAST_SECONDS)
    os._exit(status)
