"""The threads that run jobs: one place in flight each, at most."""

from __future__ import annotations

import contextvars
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition, Thread
from typing import Any

from django_jobs.compat import task_backends
from django_jobs.conf import Options
from django_jobs.tasks import AnyTask
from django_jobs.worker import outcomes
from django_jobs.worker.coroutines import Coroutines
from django_jobs.worker.perform import begin, call, judge
from django_jobs.worker.run import Run
from django_jobs.worker.site_connections import (
    close_connections,
    refresh_connections,
    tidy_connections,
)

logger = logging.getLogger("django_jobs.worker")

IDLE_SECONDS = 5.0  # after so long without a job a thread gives its connections back


class Runs:
    """Runs what the loop claimed and gathers how it ended.

    Threads share one deque and are woken lazily: a thread that is awake takes the next
    job by itself, others are woken only for what still waits when the loop looks again.
    """

    def __init__(
        self,
        *,
        alias: str,
        options: Options,
        places: int,
        wake_loop: Callable[[], None],
        is_lost: Callable[[Run], bool],
    ) -> None:
        """``places``: the most threads; ``wake_loop`` tells the loop of a finished run."""
        self._alias = alias
        self._options = options
        self._places = places
        self._wake_loop = wake_loop
        self._is_lost = is_lost
        self._waiting: deque[Run] = deque()
        self._finished: deque[Run] = deque()
        self._condition = Condition()
        self._sleeping = 0
        self._threads: list[Thread] = []
        self._stopping = False
        self._coroutines = Coroutines()

    def start(self, runs: Iterable[Run]) -> None:
        """Hand over claimed jobs and see that one thread is awake."""
        self._waiting.extend(runs)
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

    def join(self, seconds: float) -> None:
        """Wait for the threads to end, so that their connections are gone."""
        for thread in [*self._threads, *self._coroutines.threads]:
            thread.join(seconds)

    def _wake(self, count: int) -> None:
        with self._condition:
            self._condition.notify(count)
            missing = min(count - self._sleeping, self._places - len(self._threads))
        for _ in range(missing):
            thread = Thread(
                target=self._work,
                name=f"jobs-run-{len(self._threads) + 1}",
                daemon=True,
            )
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        """Thread body: run one job after another."""
        clean = contextvars.copy_context()
        # each run has a copy of this context: what is made in it now is not made for each
        clean.run(task_backends.__getitem__, self._alias)
        while (run := self._next()) is not None:
            try:
                refresh_connections()
                clean.copy().run(self._run, run)
            except BaseException as fault:  # noqa: BLE001 - ours, not the task's: it must settle
                self._broken(run, fault)
            finally:
                tidy_connections(run.job.task)
        close_connections()

    def _next(self) -> Run | None:
        while True:
            try:
                return self._waiting.popleft()
            except IndexError:
                if not self._rest():
                    return None

    def _rest(self) -> bool:
        """Sleep until there may be a job; False: the worker stops."""
        idle = IDLE_SECONDS
        with self._condition:
            self._sleeping += 1
            try:
                while not self._waiting:
                    if self._stopping:
                        return False
                    if not self._condition.wait(idle) and idle:
                        close_connections()
                        idle = None  # type: ignore[assignment]  # nothing left to give back
            finally:
                self._sleeping -= 1
        return True

    def _run(self, run: Run) -> None:
        """Resolve the task and run it here, or hand it to the event loop."""
        if run.abandoned:
            return
        task = begin(run, alias=self._alias)
        if task is None:
            self._finish(run)
        elif inspect.iscoroutinefunction(task.func):
            self._coroutines.submit(
                run,
                lambda: self._call(run, task),
                lambda *end: self._conclude(run, task, *end),
            )
        else:
            self._run_here(run, task)

    def _run_here(self, run: Run, task: AnyTask) -> None:
        try:
            value = self._call(run, task)
        except BaseException as error:  # noqa: BLE001 - whatever a task raises is a failed attempt
            self._conclude(run, task, None, error)
        else:
            self._conclude(run, task, value, None)

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
        logger.error("run of job %s broke", run.job.id, exc_info=fault)
        run.error = fault
        run.outcome = outcomes.unwritable(run.job, fault, options=self._options)
        self._finish(run)

    def _finish(self, run: Run) -> None:
        """Give the run to the loop.

        While jobs wait the loop looks again within a millisecond anyway: what ends until
        then is settled together.
        """
        self._finished.append(run)
        if not self._waiting:
            self._wake_loop()
