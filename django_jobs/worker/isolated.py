"""A run in a process of its own, which is killed when it may not go on."""

from __future__ import annotations

import base64
import logging
import os
import pickle
from collections.abc import Callable
from datetime import datetime
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self, cast
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from django_jobs import payloads
from django_jobs.conf import Options
from django_jobs.exceptions import ProcessDied
from django_jobs.operations.settle import Outcome
from django_jobs.states import JobState
from django_jobs.tasks import AnyTask
from django_jobs.worker import logs, outcomes
from django_jobs.worker.line import Garbled, Message
from django_jobs.worker.perform import Abandoned, over
from django_jobs.worker.run import Run
from django_jobs.worker.spawned import Spawned

logger = logging.getLogger("django_jobs.worker")

STARTUP_SECONDS = 60.0
LOOK_SECONDS = 0.2  # between two looks at its memory, and whether it lives
LAST_SECONDS = 1.0  # from the end of its line to its own
ROOM = 1 << 20  # of a message, beside result and error


def isolated(
    run: Run, task: AnyTask, *, worker: UUID, options: Options, is_lost: Callable[[Run], bool]
) -> None:
    """Make the attempt in a process of its own and set the run's outcome.

    None is set for a run that was handed back meanwhile. What goes wrong before the task
    began, or is a fault of ours, is raised. Whatever happens, the process is gone then.
    """
    try:
        with _Process(run, task, worker=worker, options=options, is_lost=is_lost) as process:
            end = process.end()
    except Abandoned:
        return
    _conclude(run, task, end, options)


def _conclude(run: Run, task: AnyTask, end: Outcome | BaseException, options: Options) -> None:
    assert run.result is not None
    if isinstance(end, BaseException):
        run.error = end
        run.outcome = outcomes.cut_off(run.job, end, task, run.result, options=options)
        return
    run.outcome = end


class _Process:
    """What is said and done from the start of a run's process to its end."""

    def __init__(
        self,
        run: Run,
        task: AnyTask,
        *,
        worker: UUID,
        options: Options,
        is_lost: Callable[[Run], bool],
    ) -> None:
        self._run = run
        self._options = options
        self._is_lost = is_lost
        self._most_mb: int | None = getattr(task, "memory_mb", None)
        self._order = _order(run, worker, options)
        self._told: Outcome | None = None
        self._says_lost = False
        self._asked_until: float | None = None
        self._started_at = monotonic()
        self._child = Spawned(
            f"job {run.job.id}: {run.job.task}",
            env={**os.environ, "DJANGO_SETTINGS_MODULE": _settings_module()},
            longest=2 * options.max_result_bytes + 24 * options.max_error_chars + ROOM,
        )

    def __enter__(self) -> Self:
        self._run.kill, self._run.cancel = self._child.kill, self._child.wake
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._bury()
        self._child.close()

    def _bury(self) -> None:
        """Return once it is gone; until then the run keeps its place and its lease."""
        if self._child.kill():
            return
        logger.warning("job %s: its process %s is slow to die", self._run.job.id, self._child.pid)
        while not self._child.kill():
            pass

    def end(self) -> Outcome | BaseException:
        """Follow the process; return how the run ended."""
        while True:
            self._child.wait(LOOK_SECONDS)
            try:
                ended = self._hear_all()
            except Garbled as error:
                return self._died(f"sent {error} and was killed")
            if self._told is not None:
                return self._told
            if (end := self._cut()) is not None:
                return end
            if ended:
                return self._died()
            if self._child.line.closed and not self._ends_by_itself():
                return self._died("closed the line to its worker and was killed")

    def _hear_all(self) -> bool:
        """Take in what it says; return whether it has ended and says no more."""
        ended = self._child.has_ended()  # first: what it said before is heard all the same
        while self._told is None and self._child.line.is_readable():
            for message in self._child.line.read():
                self._hear(message)
            if not ended:
                break
        return ended

    def _ends_by_itself(self) -> bool:
        """Return whether it ends soon: its line is the first thing that goes."""
        deadline = monotonic() + LAST_SECONDS
        while not self._child.has_ended():
            if monotonic() > deadline:
                return False
            sleep(0.005)
        return True

    def _hear(self, message: Message) -> None:
        match message:
            case {"hello": _}:
                self._child.line.send(order=self._order)
            case {"ready": _} if not self._run.begun:
                self._begin()
            case {"progress": [int() | float() as done, total, str(text)]}:
                self._run.say((done, total, text))
            case {"settling": _}:
                self._run.settling = True
                self._child.line.send(settling=True)
            case {"outcome": dict(fields)}:
                self._told = self._outcome(fields)
            case {"broken": str(text)}:
                raise ProcessDied(f"The process of the run failed: {text}")
            case _:
                raise Garbled("what is no message")

    def _begin(self) -> None:
        """Let the task be called, unless the run shall not begin any more."""
        run = self._run
        run.start_clock()
        run.begun = True  # before the look: a drain sets abandoned before it asks what has begun
        if run.asked:
            self._told = outcomes.cancelled(run.job)
        elif not (run.abandoned or run.lost):
            self._child.line.send(go=True)

    def _outcome(self, fields: dict[str, Any]) -> Outcome:
        run = self._run
        try:
            if (at := fields.get("run_after")) is not None:
                fields["run_after"] = datetime.fromisoformat(at)
            told = Outcome(**{**fields, "lease": run.job.lease, "job": run.job.id})
            if told.state == JobState.SUCCEEDED:
                value = payloads.loads(cast("str", told.result))
                object.__setattr__(run.result, "_return_value", value)
        except (TypeError, ValueError) as error:
            raise Garbled("what is no outcome") from error
        return told

    def _cut(self) -> Outcome | BaseException | None:
        """Return how the run ends if it may not go on."""
        run = self._run
        if run.abandoned:
            raise Abandoned
        if run.lost:
            return ProcessDied("The process of the run was killed: its lease is lost.")
        if not run.begun:
            return self._cut_before()
        self._tell_lost()
        if run.asked:  # it wins over a timeout
            return self._cut_asked() or self._too_large()
        return over(run, None) if run.timed_out else self._too_large()

    def _cut_before(self) -> Outcome | None:
        if self._run.asked:
            return outcomes.cancelled(self._run.job)
        if monotonic() > self._started_at + STARTUP_SECONDS:
            raise ProcessDied(
                f"The process of the run was not ready within {STARTUP_SECONDS:g} s: look at"
                " what is imported and done when Django starts."
            )
        return None

    def _cut_asked(self) -> Outcome | None:
        if self._asked_until is None:
            self._asked_until = monotonic() + self._options.grace_seconds
            self._child.line.send(cancel=True)
        return outcomes.cancelled(self._run.job) if monotonic() >= self._asked_until else None

    def _tell_lost(self) -> None:
        """Let its context say whether the lease may be another's by now."""
        lost = self._is_lost(self._run)
        if lost != self._says_lost:
            self._says_lost = lost
            self._child.line.send(lost=lost)

    def _too_large(self) -> MemoryError | None:
        if self._most_mb is None or (used := self._child.resident_mb()) <= self._most_mb:
            return None
        return MemoryError(
            f"The process of the run used {used:,.0f} MB, more than memory_mb={self._most_mb}."
        )

    def _died(self, how: str = "") -> ProcessDied:
        """Return, or raise when the task has not begun, what tells of its death."""
        self._bury()
        how = how or self._child.end_in_words()
        if not self._run.begun:
            raise ProcessDied(f"The process of the run {how} before the task could begin.")
        return ProcessDied(f"The process of the run {how} before the task had ended.")


def _settings_module() -> str:
    """Return where a new process finds the settings that hold here."""
    holder: Any = settings._wrapped if settings.configured else None  # type: ignore[misc]  # noqa: SLF001
    while holder is not None and "default_settings" in vars(holder):
        holder = vars(holder)["default_settings"]
    module = getattr(holder, "SETTINGS_MODULE", None)
    if not module:
        raise ImproperlyConfigured(
            'isolation="process" needs settings in a module named by DJANGO_SETTINGS_MODULE: a'
            " new process cannot see what settings.configure() was given."
        )
    return str(module)


def _order(run: Run, worker: UUID, options: Options) -> str:
    """Write down what the process needs to know; a test's database is not in its settings."""
    names = {alias: values["NAME"] for alias, values in connections.settings.items()}
    order = {
        "job": run.job,
        "worker": worker,
        "options": options,
        "databases": names,
        "verbosity": logs.verbosity(),
    }
    return base64.b85encode(pickle.dumps(order)).decode()
