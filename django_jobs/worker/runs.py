"""The threads that run jobs: one place in flight each, at most."""

from __future__ import annotations

import contextvars
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition, Thread
from time import monotonic
from typing import Any
from uuid import UUID

from django_jobs import tracing
from django_jobs.compat import task_backends
from django_jobs.conf import Options
from django_jobs.tasks import AnyTask
from django_jobs.worker import outcomes
from django_jobs.worker.attempt import attempt
from django_jobs.worker.coroutines import Coroutines
from django_jobs.worker.isolated import isolated
from django_jobs.worker.perform import begin, call, judge
from django_jobs.worker.run import Run
from django_jobs.worker.site_connections import (
    close_connections,
    refresh_connections,
    tidy_connections,
)

logger = logging.getLogger("django_jobs.worker")

SHORT_SECONDS = 1.0  # after a thread could not be started, until it is tried again
IDLE_SECONDS = 5.0  # after so long without a job a thread gives its connections back


class Runs:
    """Runs what the loop claimed and gathers how it ended.

    Threads share one deque and are woken lazily: a thread that is awake takes the next
    job by itself, others are woken only for what still waits when the loop looks again.
    """

    def __init__(
        self,
        *,
        worker: UUID,
        alias: str,
        options: Options,
        places: int,
        wake_loop: Callable[[], None],
        is_lost: Callable[[Run], bool],
        expect_end: Callable[[Run], None],
    ) -> None:
        """``places``: the most threads; ``wake_loop`` tells the loop of a finished run.

        ``expect_end`` is told of each run that is handed over.
        """
        self._expect_end = expect_end
        self._worker = worker
        self._alias = alias
        self._options = options
        self._places = places
        self._wake_loop = wake_loop
        self._is_lost = is_lost
        self._waiting: deque[Run] = deque()
        self._finished: deque[Run] = deque()
        self._condition = Condition()
        self._sleeping = 0
        self._short_until = 0.0
        self._threads: list[Thread] = []
        self._stopping = False
        self._coroutines = Coroutines()

    def start(self, runs: Iterable[Run]) -> None:
        """Hand over claimed jobs and see that one thread is awake."""
        for run in runs:
            self._expect_end(run)
            self._waiting.append(run)
        self._wake(1)

    def wake_for_waiting(self) -> None:
        """Wake threads for what still waits since the last turn.

        The threads that are awake will take as many as they have finished since then: short
        jobs wake nobody, and a job that takes its time keeps no other waiting.
        """
        count = len(self._waiting) - len(self._finished)
        if count > 0:
            self._wake(count)

    @property
    def has_waiting(self) -> bool:
        """True when a claimed job has no thread yet."""
        return bool(self._waiting)

    @property
    def is_short(self) -> bool:
        """True for a while when no more threads could be started: fewer must do."""
        return monotonic() < self._short_until

    def collect(self) -> list[Run]:
        """Return the runs that have ended since the last call."""
        finished = []
        while self._finished:
            finished.append(self._finished.popleft())
        return finished

    def stop(self) -> None:
        """Let idle threads end; nobody is waited for."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        self._coroutines.stop()

    def join(self, seconds: float) -> bool:
        """Wait for the threads to end, so that their connections are gone; did they?"""
        threads = [*self._threads, *self._coroutines.threads]
        for thread in threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in threads)

    def _wake(self, count: int) -> None:
        with self._condition:
            self._condition.notify(count)
            alive = sum(thread.is_alive() for thread in self._threads)
            missing = min(count - self._sleeping, self._places - alive)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        for _ in range(0 if self.is_short else missing):
            thread = Thread(
                target=self._work,
                name=f"jobs-run-{len(self._threads) + 1}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError as error:
                self._short_until = monotonic() + SHORT_SECONDS
                logger.warning("cannot start a thread: %s", error)
                break
            self._threads.append(thread)

    def _work(self) -> None:
        """Thread body: run one job after another."""
        clean = contextvars.copy_context()
        # each run has a copy of this context: what is made in it now is not made for each
        clean.run(task_backends.__getitem__, self._alias)
        while self._work_once(clean):
            pass
        close_connections()

    def _work_once(self, clean: contextvars.Context) -> bool:
        """Run the next job; nothing of it is left in this thread. False: the worker stops."""
        run = self._next()
        if run is None:
            return False
        try:
            refresh_connections()
            clean.copy().run(self._run, run)
        except BaseException as fault:  # noqa: BLE001 - ours, not the task's: it must settle
            self._broken(run, fault)
        try:
            tidy_connections(run.job.task)
        except BaseException:  # the thread must live, with connections that it can trust
            logger.exception("could not tidy up after job %s", run.job.id)
            close_connections()
        return True

    def _next(self) -> Run | None:
        while True:
            try:
                return self._waiting.popleft()
            except IndexError:
                if not self._rest():
                    return None

    def _rest(self) -> bool:
        """Sleep until there may be a job; False: the worker stops."""
        if self._sleep(IDLE_SECONDS):
            return not self._stopping
        close_connections()  # outside the lock: a driver may take its time
        self._sleep(None)
        return not self._stopping

    def _sleep(self, seconds: float | None) -> bool:
        """Return False when nothing came for so long."""
        with self._condition:
            self._sleeping += 1
            try:
                return self._condition.wait_for(self._is_roused, seconds)
            finally:
                self._sleeping -= 1

    def _is_roused(self) -> bool:
        return bool(self._waiting) or self._stopping

    def _run(self, run: Run) -> None:
        """Resolve the task and run it here, or hand it to the event loop."""
        task = begin(run, alias=self._alias)
        if task is None:
            self._finish(run)
        elif getattr(task, "isolation", "thread") == "process":
            self._run_isolated(run, task)
        elif inspect.iscoroutinefunction(task.func):
            self._coroutines.submit(
                run,
                lambda: self._call(run, task),
                lambda *end: self._conclude(run, task, *end),
            )
        else:
            self._run_here(run, task)

    def _run_here(self, run: Run, task: AnyTask) -> None:
        attempt(
            run, task, worker=self._worker, options=self._options, is_lost=self._is_lost
        )  # a fault of ours is left to the caller
        self._finish(run)

    def _run_isolated(self, run: Run, task: AnyTask) -> None:
        isolated(run, task, worker=self._worker, options=self._options, is_lost=self._is_lost)
        if run.outcome is not None:  # else it was handed back
            self._finish(run)

    def _call(self, run: Run, task: AnyTask) -> Any:
        return call(run, task, is_lost=self._is_lost)

    def _conclude(self, run: Run, task: AnyTask, value: Any, error: BaseException | None) -> None:
        """Judge how the call ended and give the run to the loop, whatever happens here."""
        try:
            judge(run, task, value, error, options=self._options)
        except BaseException as fault:  # noqa: BLE001 - it must settle
            self._broken(run, fault)
        else:
            self._finish(run)

    def _broken(self, run: Run, fault: BaseException) -> None:
        """End a run whose machinery failed: it must settle, or its place is lost."""
        tracing.end(run.span, fault)
        run.error = fault
        run.outcome = outcomes.broken(run.job, fault, begun=run.begun, options=self._options)
        self._finish(run)
        logger.error("run of job %s broke", run.job.id, exc_info=fault)

    def _finish(self, run: Run) -> None:
        """Give the run to the loop.

        While jobs wait the loop looks again within a millisecond anyway: what ends until
        then is settled together.
        """
        self._finished.append(run)
        if not self._waiting or self.is_short:
            self._wake_loop()
