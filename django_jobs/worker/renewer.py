"""Renews every held lease and says that the worker is alive."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from django_jobs.operations.renew import Beat, beat, renew
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.connection import PrivateDatabase
from django_jobs.worker.run import Run
from django_jobs.worker.thread import Rounds

logger = logging.getLogger("django_jobs.worker")


class Renewer:
    """Beats every renewal interval, on a connection of its own."""

    def __init__(
        self,
        *,
        database: PrivateDatabase,
        capacity: Capacity,
        sign: Callable[[], Beat],
        renew_seconds: float,
    ) -> None:
        """``sign`` returns the worker's present sign of life."""
        self.database = database
        self._capacity = capacity
        self._sign = sign
        self._renew_seconds = renew_seconds
        self._renewed_at = monotonic()
        self.rounds = Rounds("jobs-renewer", self.turn, database.close)

    def silence(self) -> float:
        """Return the seconds since the database last took a heartbeat."""
        return monotonic() - self._renewed_at

    def note_beat(self) -> None:
        """Count a heartbeat that was sent elsewhere, as at the registration."""
        self._renewed_at = monotonic()

    def turn(self) -> float:
        """Renew what is held, then beat; return the seconds until the next time."""
        begun = monotonic()
        sign = self._sign()
        held = list(self._capacity.held.copy().items())
        if held:
            self._renew(held, sign)
        beat(sign, database=self.database)
        self._renewed_at = begun
        return max(self._renew_seconds - (monotonic() - begun), 0.05)

    def _renew(self, held: list[tuple[int, Run]], sign: Beat) -> None:
        """Renew first: after an outage the beat opens the way for other workers' rescue."""
        answers = renew(
            [lease for lease, _ in held],
            worker=sign.worker,
            lease_seconds=sign.lease,
            database=self.database,
        )
        for lease, run in held:
            # it may have been settled since: then nobody holds it any more
            # (one that has ended is told by its own settle)
            if run.outcome is not None or run.settling or lease not in self._capacity.held:
                continue
            answer = answers.get(lease)
            if answer is None and not run.lost:
                run.lost = True
                run.cancel()
                logger.warning("job %s lost its lease; its outcome will be void", run.job.id)
            elif answer is not None and answer.asked and not run.asked:
                run.ask()
                logger.info("job %s was cancelled: its run is asked to end", run.job.id)
