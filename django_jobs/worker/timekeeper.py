"""Ends runs whose time is over, and notices those that do not end."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from math import inf
from time import monotonic

from django_jobs.worker.run import Run
from django_jobs.worker.thread import Rounds

logger = logging.getLogger("django_jobs.worker")


class Timekeeper:
    """Watches runs that have a timeout; its thread is made when the first of them begins.

    It sends no statement, so a slow database never makes a timeout late.
    """

    def __init__(
        self, *, held: dict[int, Run], grace_seconds: float, wake_loop: Callable[[], None]
    ) -> None:
        """``held``: lease → run, changed by the loop; it is woken when there is news."""
        self._held = held
        self._grace_seconds = grace_seconds
        self._wake_loop = wake_loop
        self._late: deque[Run] = deque()
        self._stuck: list[Run] = []
        self._started = False
        self.rounds = Rounds("jobs-timekeeper", self.turn, lambda: None)

    def expect_end(self, run: Run) -> None:
        """Mind a claimed run if its time is bounded; called by the loop's thread.

        Never by the run's own: an exception sent to that might leave a lock held.
        """
        if run.timeout is not None:
            self._start()
            self.rounds.expect(run.timeout)

    def collect(self) -> list[Run]:
        """Return the runs whose time came to its end since the last call."""
        late = []
        while self._late:
            late.append(self._late.popleft())
        return late

    def stuck(self) -> list[Run]:
        """Return the runs that are held although their time and the grace are over."""
        return [run for run in self._stuck if self._is_running(run)]

    def turn(self) -> float:
        """Look at every run that is held; return the seconds until the next moment."""
        runs = list(self._held.copy().values())
        now = monotonic()
        return min((self._look(run, now) for run in runs), default=inf) - now

    def _start(self) -> None:
        if not self._started:
            try:
                self.rounds.start()
            except RuntimeError as error:  # the next run tries again
                logger.warning("cannot start a thread: %s", error)
            else:
                self._started = True

    def _is_running(self, run: Run) -> bool:
        return run.outcome is None and self._held.get(run.job.lease) is run

    def _look(self, run: Run, now: float) -> float:
        """End a run whose time is over; return when something is due of it again."""
        if run.timeout is None or run.outcome is not None:
            return inf
        if run.began_at is None:
            return now + run.timeout  # it may begin this moment, so nothing is due before
        ends_at = run.began_at + run.timeout
        if now < ends_at:
            return ends_at
        if not run.timed_out and run.can_be_ended:
            self._late.append(run)  # first: the loop tells it before it settles how it ended
            run.time_out()
            self._wake_loop()
        if now < ends_at + self._grace_seconds:
            return ends_at + self._grace_seconds
        if not run.stuck:
            self._give_up(run)
        return inf

    def _give_up(self, run: Run) -> None:
        run.stuck = True
        self._stuck = [*self.stuck(), run]
        logger.error(
            "job %s is over its timeout of %g s and does not end: its place is stuck: %s",
            run.job.id,
            run.timeout,
            run.job.task,
        )
        self._wake_loop()
