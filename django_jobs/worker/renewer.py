"""Renews every held lease, says that the worker is alive, and how far its runs are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from django_jobs.operations.progress import write_progress
from django_jobs.operations.renew import Beat, beat, renew
from django_jobs.sql.private import brief
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.connection import Failure, PrivateDatabase
from django_jobs.worker.run import Run
from django_jobs.worker.thread import Rounds

logger = logging.getLogger("django_jobs.worker")

PROGRESS_SECONDS = 2.0  # between two looks at what runs say of themselves


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
        self._due = 0.0  # when to renew
        self._hurried = False
        self._look_due = 0.0
        self.rounds = Rounds("jobs-renewer", self.round, database.close)

    def silence(self) -> float:
        """Return the seconds since the database last took a heartbeat."""
        return monotonic() - self._renewed_at

    def note_beat(self) -> None:
        """Count a heartbeat that was sent elsewhere, as at the registration."""
        self._renewed_at = monotonic()

    def hurry(self) -> None:
        """Renew and beat at once; from any thread."""
        self._hurried = True
        self.rounds.expect(0.0)

    def round(self) -> float:
        """Do what is due; return the seconds until something is.

        Runs are looked at, not listened to: what wakes this thread needs a lock, and the
        exception that ends a task could leave it locked for ever.
        """
        if self._hurried or monotonic() >= self._due:
            self._hurried, self._due = False, 0.0  # should it fail, it is still due
            pause = self.turn()
            self._due = monotonic() + pause
        if monotonic() >= self._look_due:
            self._look_due = monotonic() + PROGRESS_SECONDS
            self._write_progress()
        return max(min(self._due, self._look_due) - monotonic(), 0.05)

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

    def _write_progress(self) -> None:
        """Write what runs have said since it was written last; nothing new: no statement.

        What cannot be written now is said in the next look.
        """
        held = self._capacity.held.copy()
        said = {
            lease: (run, run.progress)
            for lease, run in held.items()
            if run.progress != run.written and run.progress is not None and _is_heard(run)
        }
        if not said:
            return
        news = {lease: what for lease, (_, what) in said.items()}
        try:
            taken = write_progress(news, worker=self._sign().worker, database=self.database)
        except Failure as error:  # it is only shown: no run and no renewal depends on it
            logger.warning("progress not written, again in 2 s: %s", brief(error))
            return
        for lease in taken:
            run, what = said[lease]
            run.written = what


def _is_heard(run: Run) -> bool:
    """Return whether a run has a lease that tells of it."""
    return run.outcome is None and not (run.lost or run.settling or run.abandoned)
