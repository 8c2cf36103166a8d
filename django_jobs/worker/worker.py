"""The worker: owns the threads, from start over drain to stopped."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from time import monotonic
from uuid import UUID, uuid4

from django_jobs.compat import TaskResultStatus
from django_jobs.conf import DEFAULT_SLOTS, Options
from django_jobs.exceptions import DatabaseRefused
from django_jobs.operations.claim import Other
from django_jobs.operations.expire import Expired
from django_jobs.operations.free import Freed
from django_jobs.operations.renew import Beat, beat
from django_jobs.operations.rescue import Rescued
from django_jobs.operations.settle import Settled
from django_jobs.placement import Host
from django_jobs.planner import Turns
from django_jobs.sql.private import brief
from django_jobs.states import FINAL, JobState
from django_jobs.watchers import tell_start, tell_stop
from django_jobs.worker import report
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.connection import UNFIT, Failure, PrivateDatabase
from django_jobs.worker.hosting import Hosting, automatic_labels, knows
from django_jobs.worker.late import LateRuns
from django_jobs.worker.listener import Listener
from django_jobs.worker.loop import Loop
from django_jobs.worker.notifier import Ended, Notifier
from django_jobs.worker.readiness import require_database
from django_jobs.worker.renewer import Renewer
from django_jobs.worker.retention import Retention
from django_jobs.worker.run import Run
from django_jobs.worker.runs import Runs
from django_jobs.worker.served import Served
from django_jobs.worker.sign import announce, names_of, sign
from django_jobs.worker.stopping import RECYCLED, Stop
from django_jobs.worker.sweeper import Sweeper
from django_jobs.worker.tally import jobs_in_words
from django_jobs.worker.timekeeper import Timekeeper
from django_jobs.worker.timetable import Timetable
from django_jobs.worker.wakeup import Wakeup
from django_jobs.worker.watchdog import Watchdog

logger = logging.getLogger("django_jobs.worker")

JOIN_SECONDS = 2.0
ONCE_SECONDS = 3.0  # a longer pause between tries is not for --once


class Worker:
    """One worker; ``run()`` returns its exit status.

    The same object serves the command, tests and any process that wants to embed it; only
    ``handle_signals()`` needs the main thread.
    """

    def __init__(
        self,
        options: Options,
        *,
        name: str | None = None,
        queues: Sequence[str] | None = None,
        once: bool = False,
        max_jobs: int | None = None,
        cron: bool = True,
    ) -> None:
        """``queues``: those to serve; None: the setting QUEUES, [] = all that have jobs.

        ``cron``: whether it fires the schedules of the settings.
        """
        self.id: UUID = uuid4()
        self.name = name or socket.gethostname()
        self.options = options
        self._once = once
        self._max_jobs = max_jobs
        self.fires_schedules = cron
        self.has_cut_off_runs = False  # True when runs go on in threads that nobody waits for
        self._state = "running"
        self._is_registered = False
        self.health: str | None = None  # host:port that answers probes
        self._wakeup = Wakeup()
        self._stop = Stop(self._wakeup, seconds=options.drain_seconds)
        self.served = Served(options.queue_names if queues is None else queues, changed=self._ring)
        self._build()

    def _build(self) -> None:
        options, alias = self.options, self.options.database
        self._databases = {
            purpose: PrivateDatabase(alias, purpose=purpose)
            for purpose in ("loop", "renewer", "sweeper")
        }
        default = options.max_in_flight if len(self.served.names) == 1 else DEFAULT_SLOTS
        host = Host(
            names=names_of(self.name),
            labels=automatic_labels() | options.labels,
            resources=options.resources,
            knows=knows,
        )
        self.hosting = Hosting(host, name=self.name, worker=self.id)
        self.capacity = Capacity(
            cap=options.max_in_flight,
            slots={name: options.slots(name, default=default) for name in options.queues},
            default_slots=default,
            hosting=self.hosting,
        )
        weights = {name: options.weight(name) for name in options.queues}
        self.renewer = Renewer(
            database=self._databases["renewer"],
            capacity=self.capacity,
            sign=self._sign,
            renew_seconds=options.renew_seconds,
        )
        self.notifier = Notifier(database=alias)
        self.timekeeper = Timekeeper(
            held=self.capacity.held,
            grace_seconds=options.grace_seconds,
            wake_loop=self._wakeup.wake,
        )
        self.runs = Runs(
            worker=self.id,
            alias=options.alias,
            options=options,
            places=options.max_in_flight,
            wake_loop=self._wakeup.wake,
            is_lost=self._is_lost,
            expect_end=self.timekeeper.expect_end,
        )
        self.late = LateRuns(
            worker=self.id,
            options=options,
            database=self._databases["loop"],
            held=self.capacity.held,
            collect=self.timekeeper.collect,
        )
        self.sweeper = Sweeper(
            database=self._databases["sweeper"],
            worker=self.id,
            backend=options.alias,
            quiet=self.quiet,
            found_work=self._ring,
            buried=self._buried,
            queues_seen=self.served.learn if self.served.dynamic else None,
            is_idle=lambda: self.loop.idle,
            hosting=self.hosting,
            unknown_task_seconds=options.unknown_task_seconds,
            timetable=self._timetable(),
            retention=Retention(
                options.retention, backend=options.alias, database=self._databases["sweeper"]
            ),
        )
        self.loop = Loop(
            worker=self.id,
            options=options,
            database=self._databases["loop"],
            capacity=self.capacity,
            runs=self.runs,
            turns=Turns(weights),
            wakeup=self._wakeup,
            queues=lambda: self.served.names,
            healthy=self._is_healthy,
            register=self.register,
            settled=self._settled,
            ended=self._ended,
            expect=self.sweeper.rounds.expect,
            hosting=self.hosting,
            late=self.late,
        )
        self.listener = self._listener(alias)
        self.watchdog = Watchdog(
            patience=self._patience(),
            silence=self.silence,
            limit=options.watchdog_seconds,
            overdue=self._stop.overdue,
        )

    def _timetable(self) -> Timetable | None:
        if not self.fires_schedules:
            return None
        return Timetable(
            dict(self.options.cron),
            worker=self.id,
            backend=self.options.alias,
            database=self._databases["sweeper"],
            tell=self.notifier.tell,
        )

    def _listener(self, alias: str) -> Listener | None:
        listen = self.options.listen
        if listen is False or self._once:
            return None
        database = PrivateDatabase(alias if listen is True else listen, purpose="listener")
        return Listener(
            database=database,
            backend=self.options.alias,
            rung=self._heard,
            worker=self.id,
            asked=self.renewer.hurry,
        )

    def _patience(self) -> dict[PrivateDatabase, float]:
        """Return how long a statement of each thread may go unanswered, in seconds."""
        patience = dict.fromkeys(self._databases.values(), float(self.options.lease_seconds))
        patience[self.renewer.database] = max(self.options.renew_seconds, 1.0)
        if self.listener is not None:
            patience[self.listener.database] = 3.0
        return patience

    # what is measured

    @property
    def state(self) -> str:
        """What it is about, as its row says; ``starting`` before there is one."""
        return self._state if self._is_registered else "starting"

    @property
    def places(self) -> int:
        """The most jobs that it holds."""
        return self.capacity.cap

    @property
    def in_flight(self) -> int:
        """How many it holds."""
        return len(self.capacity.held)

    @property
    def is_listening(self) -> bool:
        """Whether it hears the bell."""
        return self.listener is not None and self.listener.is_listening

    @property
    def queue_names(self) -> Sequence[str]:
        """The queues that it serves, as far as it knows them."""
        return self.served.names

    # what the parts ask of each other

    @property
    def quiet(self) -> float:
        """A longer silence of the whole fleet is the database's, in seconds."""
        return self.options.lease_seconds - self.options.renew_seconds

    def _is_healthy(self) -> bool:
        """Return False when the database has taken no heartbeat for too long to claim."""
        return self.renewer.silence() < self.quiet

    def _is_lost(self, run: Run) -> bool:
        return run.lost or self.renewer.silence() > 0.9 * self.options.lease_seconds

    def silence(self) -> float:
        """Return for how long the loop has been at one turn; asleep it is not silent."""
        return 0.0 if self._wakeup.sleeping else monotonic() - self.loop.turned_at

    def _ring(self) -> None:
        self.loop.ring()

    def _heard(self, queue: str | None) -> None:
        if queue is None or self.served.hear(queue):
            self.loop.ring()

    def _settled(self, run: Run, answer: Settled) -> None:
        report.settled(run, answer)
        if answer.finished_at is None:
            return
        result = None
        if run.result is not None and run.outcome is not None and run.outcome.state == "succeeded":
            result = run.result
            for name, value in (
                ("status", TaskResultStatus.SUCCESSFUL),
                ("state", JobState.SUCCEEDED),
                ("finished_at", answer.finished_at),
            ):
                object.__setattr__(result, name, value)
        self.notifier.put(Ended(run.job.id, self.options.alias, result))

    def _ended(self, job: Other | Freed) -> None:
        report.ended(job)
        if job.state in FINAL:
            self.notifier.put(Ended(job.id, self.options.alias))

    def _buried(self, job: Rescued | Expired | Freed) -> None:
        report.ended(job)
        self.notifier.put(Ended(job.id, job.backend))

    def _sign(self) -> Beat:
        return sign(self, state=self._state)

    def register(self) -> int:
        """Write this worker's row; return its epoch."""
        return beat(self._sign(), database=self.loop.database)

    # life

    def handle_signals(self) -> None:
        """Let SIGTERM and SIGINT drain; needs the main thread."""
        self._stop.handle_signals()

    def stop(self) -> None:
        """Drain: claim nothing more, finish what is held, then end; from any thread."""
        self._stop.ask()

    def run(self) -> int:
        """Work until stopped; return the exit status.

        Raises DatabaseRefused, before anything is claimed, when the database cannot hold
        jobs. A database that cannot be reached yet is waited for; with ``once`` some
        seconds only, then its error is raised.
        """
        if not self._reach_database():
            return 0
        announce(self)
        self._start_threads()
        tell_start(self)
        try:
            self._work()
            return self._drain()
        except BaseException:
            self._hand_back()  # a fault of ours must not cost attempts
            raise
        finally:
            tell_stop(self)
            self._stop_threads()

    def _reach_database(self) -> bool:
        """Register, however long it takes; False: stopped meanwhile."""
        pause = 0.5
        while not self._stop.is_asked:
            self.loop.turned_at = monotonic()  # each try is a turn
            try:
                require_database(self.options.database)
                self.loop.epoch = self.register()
                self._is_registered = True
                self.renewer.note_beat()
                self.loop.turned_at = monotonic()
            except UNFIT as error:
                msg = (
                    f"The tables in {self.options.database!r} do not fit this version of"
                    f" django_jobs ({brief(error)}). Run: manage.py migrate django_jobs"
                )
                raise DatabaseRefused(msg) from error
            except Failure as error:
                if self._once and pause > ONCE_SECONDS:
                    raise
                logger.warning(
                    "cannot reach the database %r, again in %.1f s: %s",
                    self.options.database,
                    pause,
                    brief(error),
                )
                self._wakeup.sleep(pause)
                pause = min(pause * 2, 5.0)
            else:
                return True
        return False

    def _start_threads(self) -> None:
        self.loop.turned_at = monotonic()  # the database may have been waited for
        self.notifier.start()
        if self._once:
            self.sweeper.sweep()  # a worker that lives for a moment rescues and promotes first
        for part in self._parts():
            part.rounds.start()

    def _parts(self) -> list[Renewer | Sweeper | Watchdog | Listener]:
        parts: list[Renewer | Sweeper | Watchdog | Listener] = [
            self.renewer,
            self.sweeper,
            self.watchdog,
        ]
        return [*parts, self.listener] if self.listener is not None else parts

    def _work(self) -> None:
        while not self._stop.is_asked and not self._is_clogged():
            pause = self.loop.turn(claiming=True, most=self._left())
            if self._is_done():
                return
            self._wakeup.sleep(pause)

    def _left(self) -> int | None:
        return None if self._max_jobs is None else self._max_jobs - self.loop.tally.claimed

    def _is_done(self) -> bool:
        if self._left() == 0:
            return True
        return self._once and self.loop.found_nothing and not self._has_live_runs()

    def _is_clogged(self) -> bool:
        """Tell whether so many places are stuck that a new process would do better."""
        stuck, places = len(self.timekeeper.stuck()), self.options.max_in_flight
        if stuck < max(ceil(places / 4), 1):
            return False
        logger.error("%s of %s places are stuck: draining, exit %s", stuck, places, RECYCLED)
        self._stop.recycle()
        return True

    def _has_live_runs(self) -> bool:
        """Tell whether a held run has ended or may end: nobody waits for a stuck one."""
        held = self.capacity.held.values()
        return any(run.outcome is not None or not run.stuck for run in held)

    def _drain(self) -> int:
        """Finish what is held within the deadline, hand back the rest."""
        self._state = "draining"
        self.renewer.hurry()  # let the row say so at once
        self._stop.begin()
        if self.capacity.held:
            logger.info(
                "draining: %s in flight, at most %.0f s; a second signal ends it now",
                len(self.capacity.held),
                self.options.drain_seconds,
            )
        while self._has_live_runs() and self._stop.left() > 0:
            pause = self.loop.turn(claiming=False)
            self._wakeup.sleep(min(pause, self._stop.left()))
        self._hand_back()
        return self._stop.status

    def _hand_back(self) -> None:
        for _ in range(5):  # a busy row or a restarting database; else the leases lapse
            with suppress(*Failure):
                self.loop.turn(claiming=False)
                given = self.loop.hand_back_held("drain")
                self.has_cut_off_runs |= bool(given or self.capacity.held)
                if given:
                    logger.info("not finished in time, handed back: %s", jobs_in_words(given))
                if not any(map(_is_to_settle, self.capacity.held.values())):
                    return
            self._wakeup.sleep(0.2)

    def _stop_threads(self) -> None:
        self._state = "stopped"
        self.runs.stop()
        self.timekeeper.rounds.stop()
        self.notifier.finish(JOIN_SECONDS)
        for part in self._parts():
            if part is not self.watchdog:  # the last statements need it too
                part.stop() if isinstance(part, Listener) else part.rounds.stop()
        self.renewer.rounds.join(JOIN_SECONDS)  # a beat under way would overtake the last word
        with suppress(*Failure):
            self._say_goodbye()
        logger.info("worker %s:%s stopped: %s", self.name, os.getpid(), self.loop.tally)
        with suppress(*Failure):  # else their leases lapse
            self.late.give_up()
        self.loop.database.close()
        self.watchdog.rounds.stop()

    def _say_goodbye(self) -> None:
        self.loop.idle = False
        self.loop.database.fetch("idle", {"worker": self.id, "idle": False})
        self.register()

    def join(self, seconds: float = JOIN_SECONDS) -> None:
        """Wait for every thread, so that no connection is left; for tests and embedding."""
        for part in [*self._parts(), self.timekeeper]:
            part.rounds.join(seconds)
        if self.runs.join(seconds):  # else a run that was cut off may still wake the loop
            self._wakeup.close()


def _is_to_settle(run: Run) -> bool:
    """Tell whether it can be handed back, or has ended; of the late the last statement tells."""
    return run.outcome is not None or (run.may_repeat and not run.timed_out)
