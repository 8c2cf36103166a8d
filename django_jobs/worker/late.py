"""What the database is told of runs that are over their time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import sleep
from uuid import UUID

from django_jobs.conf import Options
from django_jobs.operations.settle import Answer, Outcome, Settled, settle
from django_jobs.operations.time_out import Late, time_out
from django_jobs.sql.private import brief
from django_jobs.worker import outcomes, report
from django_jobs.worker.connection import REFUSED, PrivateDatabase
from django_jobs.worker.perform import over
from django_jobs.worker.run import Run

logger = logging.getLogger("django_jobs.worker")

TRIES = 3  # for what another transaction holds for a moment
AGAIN_SECONDS = 0.1


class LateRuns:
    """Used by the loop's thread alone, on the loop's connection."""

    def __init__(
        self,
        *,
        worker: UUID,
        options: Options,
        database: PrivateDatabase,
        held: dict[int, Run],
        collect: Callable[[], list[Run]],
    ) -> None:
        """``collect`` returns the runs whose time came to its end since its last call."""
        self._worker = worker
        self._options = options
        self._database = database
        self._held = held
        self._collect = collect
        self.untold: dict[int, Run] = {}  # lease → a run whose history must say it yet

    def tell(self) -> None:
        """Write it for every run that is newly late; nothing is sent when none is."""
        for run in self._collect():
            self.untold[run.job.lease] = run
            logger.warning(
                "job %s is over its timeout of %g s: %s", run.job.id, run.timeout, run.job.task
            )
        if not self.untold:
            return
        late = [Late(run.job.lease, run.job.id, run.timeout or 0) for run in self.untold.values()]
        try:
            busy = time_out(late, worker=self._worker, database=self._database)
        except REFUSED as error:  # it must not hold up what can be settled
            logger.error("no event for a timeout: %s", brief(error))  # noqa: TRY400
            busy = set()
        self.untold = {lease: run for lease, run in self.untold.items() if lease in busy}

    # when the worker ends

    def give_up(self) -> None:
        """Settle those that have not ended, as the worker's last statement.

        Their threads live until the process is gone. So nobody is woken for the places
        that come back here; the sweepers of other workers see to that a moment later.
        """
        left = {lease: self._end(run) for lease, run in self._held.items() if run.timed_out}
        for attempt in range(TRIES):
            if attempt:
                sleep(AGAIN_SECONDS)
            self.tell()
            self._settle(left, untold=attempt == TRIES - 1)
            if not left:
                return

    def _settle(self, left: dict[int, Outcome], *, untold: bool) -> None:
        """Settle what can be, and take it out; ``untold``: also what has no event yet."""
        ready = [end for lease, end in left.items() if untold or lease not in self.untold]
        for answer in self._send(ready):
            if answer.answer != Answer.BUSY:
                self._note(answer, left.pop(answer.lease))

    def _note(self, answer: Settled, end: Outcome) -> None:
        run = self._held[answer.lease]
        run.outcome = end
        if answer.answer != Answer.LOST:
            report.settled(run, answer)

    def _end(self, run: Run) -> Outcome:
        if run.outcome is not None:  # it has ended since the last pass
            return run.outcome
        run.kill()  # what can be ended is, before another attempt may begin
        if run.asked:
            return outcomes.cancelled(run.job)
        assert run.result is not None
        return outcomes.unended(
            run.job, over(run, None), run.result.task, run.result, options=self._options
        )

    def _send(self, ends: Sequence[Outcome]) -> list[Settled]:
        """Settle them together, or one by one where the database refuses one of them."""
        if not ends:
            return []
        try:
            return settle(ends, worker=self._worker, database=self._database)
        except REFUSED as error:
            if len(ends) > 1:
                return [answer for end in ends for answer in self._send([end])]
            logger.error("the outcome of job %s cannot be stored: %s", ends[0].job, brief(error))  # noqa: TRY400
            return []
