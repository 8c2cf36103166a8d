"""The loop: settle what has finished, claim what fits, sleep until there is more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from uuid import UUID

import psycopg

from django_jobs.conf import Options
from django_jobs.operations.claim import Other, Pass, claim
from django_jobs.operations.free import Freed
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.renew import held_leases, raise_epoch
from django_jobs.operations.settle import Answer, Outcome, Settled, settle
from django_jobs.planner import Turns
from django_jobs.sql.private import brief
from django_jobs.states import FINAL, JobState
from django_jobs.worker import outcomes, report
from django_jobs.worker.after import After
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.connection import REFUSED, Failure, PrivateDatabase
from django_jobs.worker.floors import Floors
from django_jobs.worker.hosting import Hosting
from django_jobs.worker.late import LateRuns
from django_jobs.worker.run import Run
from django_jobs.worker.runs import Runs
from django_jobs.worker.tally import Tally, jobs_in_words
from django_jobs.worker.wakeup import Wakeup

logger = logging.getLogger("django_jobs.worker")

BATCH = 100  # outcomes a statement: its cost grows faster than their number
LAZY_SECONDS = 0.001  # how long claimed jobs wait for a thread that is awake already
BUSY_SECONDS = 0.02  # until a row that another transaction holds is tried again
LATE_SECONDS = 0.05  # who enqueued beside the one that rang may commit after the look
STEADY_PASSES = 8  # after so many passes with work, enqueues need not ring any more
WELL_SECONDS = 0.5  # until a worker that may not claim looks whether it may
FAILED_SECONDS = (0.1, 1.0)  # after a failure, and the most after a row of them


class Loop:
    """Runs in one thread on one connection; nothing else claims or settles."""

    def __init__(
        self,
        *,
        worker: UUID,
        options: Options,
        database: PrivateDatabase,
        capacity: Capacity,
        runs: Runs,
        turns: Turns,
        wakeup: Wakeup,
        queues: Callable[[], Sequence[str]],
        healthy: Callable[[], bool],
        register: Callable[[], int],
        settled: Callable[[Run, Settled], None],
        ended: Callable[[Other | Freed], None],
        expect: Callable[[float], None],
        hosting: Hosting,
        late: LateRuns,
    ) -> None:
        """``settled`` is told of each committed end, ``ended`` of what no run ended.

        ``expect`` is told of each near due time, and to read the placements anew.
        """
        self.database = database
        self.epoch = 1
        self.idle = False  # as the worker's row says
        self.tally = Tally()
        self.found_nothing = False  # the last pass had room and saw no job
        self.turned_at = monotonic()
        self._worker = worker
        self._options = options
        self._capacity = capacity
        self._runs = runs
        self._turns = turns
        self._wakeup = wakeup
        self._queues = queues
        self._healthy = healthy
        self._register = register
        self._settled = settled
        self._ended = ended
        self._expect = expect
        self._hosting = hosting
        self._after = After(
            worker=worker, alias=options.alias, database=database, ended=ended, expect=expect
        )
        self._late = late
        self._unsettled: dict[int, Run] = {}  # lease → a run that has ended
        self._floors = Floors()
        self._certain = True  # False: a claim's answer was lost, leases may exist unseen
        self._floor = options.poll_floor_seconds
        self._ceiling = options.poll_ceiling_seconds
        self._lease_seconds = options.lease_seconds
        self._timeout = options.timeout_seconds
        self._pause = self._floor
        self._grown = 0.0  # the last wait between two looks that nothing else ended
        self._steady = 0
        self._failures = 0  # passes in a row that the database failed
        self._rung = False
        self._deaf_until = 0.0

    def ring(self) -> None:
        """Let the next pass be now, or soon if one was just rung for in vain; any thread may."""
        self._rung = True
        if monotonic() >= self._deaf_until:
            self._wakeup.wake()

    def turn(self, *, claiming: bool, most: int | None = None) -> float:
        """Settle, then claim; return the seconds to sleep.

        ``most`` bounds how many jobs are claimed, below the room.
        """
        self.turned_at = monotonic()
        self._runs.wake_for_waiting()
        try:
            self._settle_finished()
            if claiming:
                self._claim_pass(most)
            else:
                self._pause = self._floor
            self._after.ring_for_woken()
        except Failure as error:
            return self._failed(error)
        self._failures = 0
        if self._runs.has_waiting:
            return min(self._pause, WELL_SECONDS) if self._runs.is_short else LAZY_SECONDS
        is_busy = self._unsettled or self._late.untold
        return min(self._pause, BUSY_SECONDS) if is_busy else self._pause

    def _failed(self, error: BaseException) -> float:
        """Note that the database failed; the next pass starts at the floor again."""
        logger.warning("pass failed: %s", brief(error))
        self._certain = False
        self.idle = False  # what the row says is not known
        self.found_nothing = False
        self._runs.wake_for_waiting()  # what was claimed runs on, however long this takes
        self._pause, self._grown = self._floor, 0.0
        shortest, longest = FAILED_SECONDS
        self._failures = min(self._failures + 1, 10)
        pause: float = shortest * 2 ** (self._failures - 1)
        return min(pause, longest)

    # settling

    def _settle_finished(self) -> None:
        for run in self._runs.collect():
            if self._capacity.held.get(run.job.lease) is run:
                self._unsettled[run.job.lease] = run
        self._late.tell()  # after they are collected: of each of them it is told by now
        self._move_unknown()
        ended = [run for run in self._unsettled.values() if run.job.lease not in self._late.untold]
        for start in range(0, len(ended), BATCH):
            self._settle(ended[start : start + BATCH])

    def _move_unknown(self) -> None:
        """Let jobs whose task is unknown here go where only workers look that know it."""
        asked: dict[tuple[int, str], int | None] = {}  # no longer: a row may be taken away
        for run in self._unsettled.values():
            outcome = _outcome(run)
            if outcome.kind == "unknown_task" and outcome.placement is None:
                key = run.job.placement, run.job.task
                if key not in asked:
                    asked[key] = self._where_known(*key)
                if (place := asked[key]) is not None:
                    run.outcome = replace(outcome, state="ready", delay=None, placement=place)

    def _where_known(self, placement: int, task: str) -> int | None:
        """Return where such a job goes; None: it stays, and waits a while."""
        try:
            found = self._hosting.where_known(placement, task, database=self.database)
        except REFUSED as error:
            logger.error("no placement for %.200s: %s", task, brief(error))  # noqa: TRY400
            return None
        return None if found == placement else found  # where it would be claimed again at once

    def _settle(self, runs: list[Run]) -> None:
        """Settle in one statement; one that the database refuses is found and replaced."""
        try:
            answers = self._send([_outcome(run) for run in runs])
        except REFUSED as error:
            if len(runs) > 1:
                for run in runs:
                    self._settle([run])
                return
            self._replace_refused(runs[0], error)
            return  # the next pass sends what has replaced it
        by_lease = {run.job.lease: run for run in runs}
        moved = {run.job.queue for run in runs if _outcome(run).placement is not None}
        for answer in answers:
            self._note(by_lease[answer.lease], answer)
        self._after.ring_for(moved)  # who knows the task may be asleep
        self._after.settled(answers)

    def _send(self, batch: Sequence[Outcome]) -> list[Settled]:
        return settle(batch, worker=self._worker, database=self.database)

    def _replace_refused(self, run: Run, error: BaseException) -> None:
        """Let the job die of it; if even that is refused, leave its lease to lapse."""
        logger.error("the outcome of job %s cannot be stored: %s", run.job.id, brief(error))
        if run.refused:
            self._forget(run)
            return
        run.refused = True
        run.error = error
        run.outcome = outcomes.unwritable(run.job, error, options=self._options)

    def _note(self, run: Run, answer: Settled) -> None:
        if answer.answer == Answer.BUSY:
            return  # stays unsettled, and held
        self._forget(run)
        if answer.answer == Answer.LOST:
            run.lost = True
            self.tally.lost += 1
            logger.warning("lost lease: the outcome of job %s is void", run.job.id)
            return
        outcome = _outcome(run)
        if answer.finished_at is not None:  # a cancel may have won, or it was settled before
            outcome = replace(outcome, state=str(answer.state))
        self.tally.note(run.job, outcome, answer.finished_at)
        if outcome.state == "scheduled":
            self._expect(outcome.delay if outcome.delay is not None else 0.0)
        self._settled(run, answer)

    def _forget(self, run: Run) -> None:
        self._unsettled.pop(run.job.lease, None)
        self._capacity.release(run.job.lease)
        run.error = None  # its frames hold what the task held

    # claiming

    def _claim_pass(self, most: int | None) -> None:
        room = self._capacity.room() if most is None else min(self._capacity.room(), most)
        if room <= 0 or not self._healthy():
            self.found_nothing = False
            self._pause = min(max(self._pause, self._floor), WELL_SECONDS)
            return
        if not self._certain:
            self._recover()
        rung, self._rung = self._rung, False
        got = self._claim(room)
        if not got.known:
            self.epoch = self._register()
            self._certain = False
            self._pause = 0.0
            self._hosting.doubt()
            self._expect(0.0)
            return
        self._take(got)
        self._set_pace(got, rung=rung)
        if self._hosting.note(got.placements):
            self.found_nothing = False  # before they are read nobody knows
            self._expect(0.0)
        elif got.others or (room > len(got.jobs) and any(job.alone for job in got.jobs)):
            self._pause = 0.0  # there is room left, and perhaps a job for it

    def _claim(self, room: int) -> Pass:
        self._certain = False  # until the answer is here
        lanes = self._floors.raised(self._capacity.lanes(self._queues(), self._turns))
        got = claim(
            lanes,
            room=room,
            worker=self._worker,
            epoch=self.epoch,
            backend=self._options.alias,
            lease_seconds=self._lease_seconds,
            database=self.database,
        )
        self._certain = True
        self._floors.note(got)
        return got

    def _take(self, got: Pass) -> None:
        if got.clock is not None:
            self._turns.advance(got.cards, got.clock)
        self._after.claimed([*(job.id for job in got.jobs), *(each.id for each in got.others)])
        for other in got.others:  # which ended in the claim itself, some of them
            self._ended(other)
        if got.jobs:
            runs = [Run(job, timeout=self._timeout) for job in got.jobs]
            self.tally.claimed += len(runs)
            self._capacity.take(runs)
            self._runs.start(runs)
        self._after.ended([other.id for other in got.others if other.state in FINAL])

    def _set_pace(self, got: Pass, *, rung: bool) -> None:
        """Choose the pause, and say in the worker's row whether enqueues shall ring."""
        self.found_nothing = not got.seen and self._floors.is_full
        if rung:
            self._expect(0.0)  # the bell may have been for a job that is due soon
        if got.seen or got.jobs:
            self._pause, self._grown = self._floor, 0.0
            self._steady += 1
            if self._steady == STEADY_PASSES and self.idle:
                self._say_idle(idle=False)
            return
        self._steady = 0
        if not self._floors.is_full:  # nothing is known of what lies before the floors
            self._pause = self._floor
            return
        if not self.idle:
            self._say_idle(idle=True)
            self._pause = 0.0  # look once more: who enqueues from now on rings
            self._rung = self._rung or rung
            return
        if rung:  # in vain; more bells would be too
            self._deaf_until = monotonic() + LATE_SECONDS
            self._pause = LATE_SECONDS
            return
        self._grown = self._pause = min(max(self._grown * 2, self._floor), self._ceiling)

    def _say_idle(self, *, idle: bool) -> None:
        self.database.fetch("idle", {"worker": self._worker, "idle": idle})
        self.idle = idle

    def _recover(self) -> None:
        """Void claims under way, then give back the leases that no run of ours holds."""
        epoch = raise_epoch(worker=self._worker, database=self.database)
        self.epoch = self._register() if epoch is None else epoch
        leases = held_leases(worker=self._worker, database=self.database)
        stray = [
            handed_back(lease=lease, job=job, reason="lost_claim")
            for lease, job in leases.items()
            if lease not in self._capacity.held
        ]
        if stray:
            answers = self._send(stray)
            self._after.handed_back(answers)
            logger.warning("handed back what a lost answer claimed: %s", jobs_in_words(len(stray)))
            if any(answer.answer == Answer.BUSY for answer in answers):
                msg = "a stray lease is busy"
                raise psycopg.OperationalError(msg)
        self._certain = True

    # stopping

    def hand_back_held(self, reason: str) -> int:
        """Give back what still runs, attempts returned; return how many.

        Runs of tasks that are not idempotent are left to lapse: they may have done half
        of their work, and the rescue buries them. Those that are late have used their
        attempt: the worker's last statement says so.
        """
        held = self._capacity.held.values()
        cut = [run for run in held if run.outcome is None and not run.timed_out]
        for run in cut:
            first, run.abandoned = not run.abandoned, True  # before it is asked what has begun
            if first and not run.may_repeat:
                logger.warning("job %s may not be repeated: it is left to be buried", run.job.id)
                self.tally.left += 1
        gone = [run for run in cut if run.kill()]  # what is handed back runs beside nothing
        runs = [run for run in gone if run.may_repeat]
        if not runs:
            return 0
        given = [handed_back(lease=r.job.lease, job=r.job.id, reason=reason) for r in runs]
        answers = [answer for answer in self._send(given) if answer.answer != Answer.BUSY]
        for answer in answers:
            self._capacity.release(answer.lease)
        report.cut_off(runs, answers)
        self._after.handed_back(answers)
        self._after.ring_for_woken()
        done = sum(answer.state == JobState.SUCCEEDED for answer in answers)  # it had committed
        self.tally.succeeded += done
        self.tally.handed_back += len(answers) - done
        if answers:
            self._after.ring_for({run.job.queue for run in runs})
        return len(answers) - done


def _outcome(run: Run) -> Outcome:
    assert run.outcome is not None
    return run.outcome
