"""What the worker's service threads have in common: a body that never dies quietly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Thread
from time import monotonic

from django_jobs.sql.private import brief
from django_jobs.worker.connection import Failure

logger = logging.getLogger("django_jobs.worker")

RETRY_SECONDS = 0.5


class Rounds:
    """A named daemon thread that calls ``turn()`` again and again.

    ``turn`` returns the seconds until the next call; a failure is logged and tried again
    after a second, because a dead service thread would strand jobs.
    """

    def __init__(self, name: str, turn: Callable[[], float], at_end: Callable[[], None]) -> None:
        """``at_end`` runs in the thread when it stops, to close its connection."""
        self._turn = turn
        self._at_end = at_end
        self._condition = Condition()
        self._due = monotonic()
        self._stopping = False
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def expect(self, seconds: float) -> None:
        """Let the next turn be no later than ``seconds`` from now."""
        due = monotonic() + seconds
        with self._condition:
            if due < self._due:
                self._due = due
                self._condition.notify()

    def stop(self) -> None:
        """Ask the thread to end after its present turn."""
        with self._condition:
            self._stopping = True
            self._condition.notify()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        """Thread body."""
        while self._wait():
            try:
                pause = self._turn()
            except Failure as error:
                if self._stopping:  # a listener is stopped by breaking its line
                    break
                logger.warning(
                    "%s: %s; again in %.1f s", self._thread.name, brief(error), RETRY_SECONDS
                )
                pause = RETRY_SECONDS
            except Exception:  # the next round repeats it
                logger.exception("%s failed; again in %.1f s", self._thread.name, RETRY_SECONDS)
                pause = RETRY_SECONDS
            self.expect(pause)
        self._at_end()

    def _wait(self) -> bool:
        with self._condition:
            while not self._stopping:
                left = self._due - monotonic()
                if left <= 0:
                    self._due = float("inf")  # until the turn says when
                    return True
                self._condition.wait(min(left, 3600.0))
        return False
