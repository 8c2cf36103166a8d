"""Hears the bell. It is only ever a hint: polling alone is always correct."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from django_jobs.worker.connection import Failure, PrivateDatabase
from django_jobs.worker.thread import Rounds

logger = logging.getLogger("django_jobs.worker")

PING_SECONDS = 8.0  # a dead line is noticed by the next ping


class Listener:
    """LISTENs on a direct connection and passes the names of queues on."""

    def __init__(
        self,
        *,
        database: PrivateDatabase,
        backend: str,
        rung: Callable[[str | None], None],
        worker: UUID,
        asked: Callable[[], None],
    ) -> None:
        """``rung`` takes a queue's name, or None: something may have been missed.

        ``asked`` is called when ``worker`` shall look whether a run of its is to end.
        """
        self.database = database
        self._backend = backend
        self._rung = rung
        self._worker = str(worker)
        self._asked = asked
        self._listening: object = None
        self._stopping = False
        self.rounds = Rounds("jobs-listener", self.turn, database.close)

    @property
    def is_listening(self) -> bool:
        """Whether a bell would be heard."""
        return self._listening is not None and not getattr(self._listening, "closed", True)

    def turn(self) -> float:
        """Wait for bells until the next ping is due."""
        connection = self.database.connection()
        if self.database.pooled:
            logger.warning("LISTEN needs a direct connection: polling only (option 'listen')")
            self.database.close()
            return float("inf")
        if connection is not self._listening:
            self.database.fetch("listen", {})
            self._listening = connection
            self._rung(None)  # what was enqueued before LISTEN rang for nobody
        try:
            self._hear(connection)
        except Failure:
            self.database.close()
            raise
        if not self._stopping:
            self.database.fetch("ping", {})
        return 0.0

    def _hear(self, connection: object) -> None:
        for notice in connection.notifies(timeout=PING_SECONDS):  # type: ignore[attr-defined]
            if self._stopping:
                return
            if notice.payload == self._worker:
                self._asked()
            queue, _, backend = notice.payload.rpartition(" ")
            if backend == self._backend:
                self._rung(queue)

    def stop(self) -> None:
        """End the present wait too, by breaking the connection."""
        self._stopping = True
        self.rounds.stop()
        self.database.hang_up()
