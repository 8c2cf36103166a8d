"""The process of one run: it takes one order, calls one task, and ends."""

from __future__ import annotations

import base64
import ctypes
import logging
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NoReturn

import django

from django_jobs.worker.line import Line, Message

if TYPE_CHECKING:
    from django_jobs.operations.settle import Outcome
    from django_jobs.tasks import AnyTask
    from django_jobs.worker.run import Run

LONGEST_ORDER = 1 << 30  # its sender is trusted
LOOK_SECONDS = 0.5  # between two looks at what the task says of itself
PR_SET_PDEATHSIG = 1


def main(fd: int, parent: int) -> NoReturn:
    """Make one attempt and say over the socket ``fd`` how it ended."""
    _die_with(parent)
    _leave_signals_to_the_worker()
    os.set_inheritable(fd, False)
    line = Line(socket.socket(fileno=fd), longest=LONGEST_ORDER)
    try:
        last = _attempted(line)
    except BaseException as error:  # noqa: BLE001 - the worker settles what it is told
        traceback.print_exc()
        last = {"broken": _told(error)}
    _leave(line, last)


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when the thread that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it went before it could be asked for
        os._exit(1)


def _leave_signals_to_the_worker() -> None:
    """Go on when a whole group of processes is told to stop: the worker drains.

    Processes that the task starts have the system's rules again, forked ones too.
    """
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: None)

    def usual() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    os.register_at_fork(after_in_child=usual)


def _told(error: BaseException) -> str:
    with suppress(Exception):
        return f"{type(error).__name__}: {error}"[:1000]
    return type(error).__name__


def _attempted(line: Line) -> Message:
    """Get ready, wait for the word to go, run the task; return the last message."""
    line.send(hello=True)
    order = _next(line)[0]["order"]
    django.setup()
    outcome = _Attempt(line, pickle.loads(base64.b85decode(order))).outcome()  # noqa: S301 - ours
    fields = asdict(outcome)
    if outcome.run_after is not None:
        fields["run_after"] = outcome.run_after.isoformat()
    return {"outcome": fields}


def _next(line: Line) -> list[Message]:
    """Wait for the next message; without a worker there is nothing more to do."""
    while not (messages := line.read()):
        if line.closed:
            os._exit(1)
    return messages


class _Attempt:
    """One run, made from the order as the worker's own is from the claim."""

    def __init__(self, line: Line, order: dict[str, Any]) -> None:
        from django.db import connections

        from django_jobs.worker.logs import log_to_stderr
        from django_jobs.worker.told_run import ToldRun

        for alias, name in order["databases"].items():
            connections.settings[alias]["NAME"] = name
        if order["verbosity"] is not None:
            log_to_stderr(verbosity=order["verbosity"], pid=True)
        self._line = line
        self._worker = order["worker"]
        self._options = order["options"]
        self._lost = False
        self._knows_settling = Event()
        self._run = ToldRun(order["job"], tell_settling=self._tell_settling)

    def outcome(self) -> Outcome:
        from django_jobs.exceptions import UnknownTask
        from django_jobs.operations.results import running
        from django_jobs.tasks import resolve
        from django_jobs.worker.outcomes import unknown

        run = self._run
        try:
            task = resolve(run.job.task)
        except UnknownTask as error:
            return unknown(run.job, error)
        run.result = running(run.job, task, backend=self._options.alias)
        self._line.send(ready=True)
        for message in _next(self._line)[1:]:  # the first is the word to go
            self._heed(message)
        Thread(target=self._listen, name="jobs-line", daemon=True).start()
        self._make(task)
        assert run.outcome is not None
        return run.outcome

    def _make(self, task: AnyTask) -> None:
        from inspect import iscoroutinefunction

        from django_jobs.worker.attempt import attempt

        if iscoroutinefunction(task.func):
            self._await(task)
        else:
            attempt(
                self._run,
                task,
                worker=self._worker,
                options=self._options,
                is_lost=self._is_lost,
            )

    def _await(self, task: AnyTask) -> None:
        """Run a coroutine as a worker does, on an event loop in a thread of its own."""
        from django_jobs.worker.coroutines import Coroutines
        from django_jobs.worker.perform import call, judge

        run, ends, done = self._run, list[tuple[Any, BaseException | None]](), Event()

        def conclude(value: Any, error: BaseException | None) -> None:
            ends.append((value, error))
            done.set()

        Coroutines().submit(run, lambda: call(run, task, is_lost=self._is_lost), conclude)
        done.wait()
        judge(run, task, *ends[0], options=self._options)

    def _is_lost(self, _run: Run) -> bool:
        return self._lost

    def _listen(self) -> None:
        """Thread body: do what the worker says, and say what the task says of itself."""
        said = None
        while not self._line.closed:
            if self._run.progress != said:
                said = self._run.progress
                self._line.send(progress=said)
            if self._line.is_readable(LOOK_SECONDS):
                for message in self._line.read():
                    self._heed(message)
        os._exit(1)  # the worker is gone

    def _heed(self, message: Message) -> None:
        match message:
            case {"cancel": _}:
                self._run.ask()
            case {"lost": bool(lost)}:
                self._lost = lost
            case {"settling": _}:
                self._knows_settling.set()

    def _tell_settling(self) -> None:
        """Return once the worker knows that the lease may be gone because of this run."""
        self._line.send(settling=True)
        self._knows_settling.wait()


def _leave(line: Line, last: Message) -> NoReturn:
    """Finish what others would miss, say the last word, and be gone."""
    finishing: list[Callable[[], object]] = [_close_connections, logging.shutdown]
    for finish in [*finishing, sys.stdout.flush, sys.stderr.flush]:
        with suppress(Exception):
            finish()
    line.send(**last)
    os._exit(0)


def _close_connections() -> None:
    from django_jobs.worker.site_connections import close_connections

    close_connections()
