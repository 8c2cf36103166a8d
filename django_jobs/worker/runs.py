"""The threads that run jobs: one place in flight each, at most."""

from __future__ import annotations

import contextvars
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition, Thread
from typing import Any

from django_jobs.compat import task_backends, task_started
from django_jobs.conf import Options
from django_jobs.exceptions import UnknownTask
from django_jobs.operations.results import running
from django_jobs.tasks import resolve
from django_jobs.worker import outcomes
from django_jobs.worker.context import JobContext
from django_jobs.worker.coroutines import Coroutines
from django_jobs.worker.run import Run
from django_jobs.worker.site_connections import close_connections, refresh_connections, tidy_connections

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
        self._coroutines = Coroutines(finish=self._finish)

    def start(self, runs: Iterable[Run]) -> None:
        """Hand over claimed jobs and see that one thread is awake."""
        self._waiting.extend(runs)
        self._wake(1)

    def wake_for_waiting(self) -> bool:
        """Wake a thread for each job that still waits; return whether any did."""
        count = len(self._waiting)
        if count:
            self._wake(count)
        return bool(count)

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
                target=self._work, name=f"jobs-run-{len(self._threads) + 1}", daemon=True,
            )
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        """Thread body: run one job after another."""
        clean = contextvars.copy_context()
        while (run := self._next()) is not None:
            try:
                refresh_connections()
                clean.copy().run(self._run, run)
            except BaseException as error:  # ours, not the task's: it must still settle
                logger.exception("run of job %s broke", run.job.id)
                run.error = error
                run.outcome = outcomes.unwritable(run.job, error, options=self._options)
                self._finish(run)
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
        try:
            task = resolve(run.job.task)
        except UnknownTask as error:
            run.outcome = outcomes.unknown(run.job, error)
            self._finish(run)
            return
        run.result = running(run.job, task, backend=self._alias)
        task_started.send_robust(
            sender=type(task_backends[self._alias]), task_result=run.result,
        )
        if inspect.iscoroutinefunction(task.func):
            self._coroutines.submit(run, lambda: self._call(run, task), self._judge(run, task))
        else:
            self._run_here(run, task)

    def _run_here(self, run: Run, task: Any) -> None:
        judge = self._judge(run, task)
        try:
            value = self._call(run, task)
        except BaseException as error:  # whatever a task raises is a failed attempt
            judge(None, error)
        else:
            judge(value, None)
        self._finish(run)

    def _call(self, run: Run, task: Any) -> Any:
        assert run.result is not None
        args = run.result.args
        if task.takes_context:
            context = JobContext(task_result=run.result, is_lost=lambda: self._is_lost(run))
            args = [context, *args]
        return task.func(*args, **run.result.kwargs)

    def _judge(self, run: Run, task: Any) -> Callable[[Any, BaseException | None], None]:
        """Return the function that turns how the call ended into the run's outcome."""

        def judge(value: Any, error: BaseException | None) -> None:
            assert run.result is not None
            if error is None:
                run.outcome, run.error = outcomes.returned(run.job, value, options=self._options)
                object.__setattr__(run.result, "_return_value", value)
            else:
                run.error = error
                run.outcome = outcomes.raised(
                    run.job, error, task, run.result, options=self._options,
                )

        return judge

    def _finish(self, run: Run) -> None:
        """Give the run to the loop.

        While jobs wait the loop looks again within a millisecond anyway: what ends until
        then is settled together.
        """
        self._finished.append(run)
        if not self._waiting:
            self._wake_loop()
