"""``--processes N``: a parent that keeps N workers running, and ends when they have."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from django_jobs.worker.lifeline import Held, Lifeline, in_words
from django_jobs.worker.stopping import LATE_SECONDS, RECYCLED, Stop
from django_jobs.worker.wakeup import Wakeup

logger = logging.getLogger("django_jobs.worker")

MOST = 64
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 30.0  # of the pauses after failures
STEADY_SECONDS = 60.0  # who lived so long has not failed at its start
SLACK_SECONDS = LATE_SECONDS + 2.0  # a worker that can end by itself has done so by then
AGAIN_SECONDS = 1.0  # two signals of one kind may arrive as one

CLEAN = (0, RECYCLED)
FINAL = (2, 3)  # bad option, database refused: the next child would say the same


@dataclass(slots=True)
class Backoff:
    """How long to wait before the next start in one place."""

    failures: int = 0

    def after(self, status: int, *, lived: float) -> float:
        """Return the seconds from an end with ``status`` to the next start."""
        if status in CLEAN:
            self.failures = 0
            return max(FIRST_SECONDS - lived, 0.0)  # at once, unless it ended as it began
        self.failures = 1 if lived >= STEADY_SECONDS else self.failures + 1
        return min(FIRST_SECONDS * 2.0 ** min(self.failures - 1, 30), LONGEST_SECONDS)


class Place:
    """One of the N: the process in it, or when the next one starts."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.due: float | None = 0.0  # None: a process is in it, or none is to come
        self.backoff = Backoff()
        self.began_at = 0.0

    def start(self, lifeline: Lifeline) -> None:
        """Start a process in it; a system that has none to give is asked again later."""
        self.began_at = monotonic()
        try:
            self.process, self.due = lifeline.start(self._number), None
        except OSError as error:
            pause = self.backoff.after(1, lived=0.0)
            self.due = monotonic() + pause
            logger.warning("cannot start a process, again in %.1f s: %s", pause, error)

    def again(self, returncode: int) -> None:
        """Say how its process ended and when the next one starts."""
        assert self.process is not None
        pause = self.backoff.after(returncode, lived=monotonic() - self.began_at)
        self.due = monotonic() + pause
        when = f"in {pause:.1f} s" if pause else "at once"
        pid, how = self.process.pid, in_words(returncode)
        if returncode == 0:
            logger.info("process %s %s; the next one starts %s", pid, how, when)
        else:
            logger.warning("process %s %s; the next one starts %s", pid, how, when)


class Supervisor:
    """Owns N processes; ``run()`` returns the exit status. Needs the main thread."""

    def __init__(self, processes: int, *, drain_seconds: float, once: bool) -> None:
        """``drain_seconds``: what a stop leaves to runs; ``once``: nothing is restarted."""
        self._lifeline = Lifeline("reload", "processes")
        self._places = [Place(number) for number in range(processes)]
        self._wakeup = Wakeup()
        self._stop = Stop(self._wakeup, seconds=drain_seconds)
        self._drain_seconds = drain_seconds
        self._once = once
        self._status = 0

    def run(self, held: Held) -> int:
        """Keep the processes running until a stop; ``held``: what tells of a parent's end."""
        self._stop.handle_signals()
        signal.signal(signal.SIGCHLD, lambda *_: self._wakeup.interrupt())
        held.watch(self._stop.ask)
        try:
            while not self._stop.is_asked and not self._is_done():
                self._start_due()
                self._wakeup.sleep(self._pause())
                self._reap(self._ended)
        finally:  # a fault of ours drains them too
            self._drain()
        return self._stop.status or self._status

    def _is_done(self) -> bool:
        return all(place.process is None and place.due is None for place in self._places)

    def _start_due(self) -> None:
        for place in self._places:
            if place.due is not None and place.due <= monotonic():
                place.start(self._lifeline)

    def _pause(self) -> float | None:
        due = [place.due for place in self._places if place.due is not None]
        return max(min(due) - monotonic(), 0.0) if due else None

    def _reap(self, ended: Callable[[Place, int], None]) -> None:
        for place in self._places:
            if place.process is not None and place.process.poll() is not None:
                ended(place, place.process.returncode)
                place.process = None

    def _ended(self, place: Place, returncode: int) -> None:
        """Note an end that no stop has asked for."""
        if returncode in FINAL:
            assert place.process is not None
            how = in_words(returncode)
            logger.error("process %s %s: all others are stopped", place.process.pid, how)
            self._stop.ask()
        if self._once or returncode in FINAL:
            self._note(returncode)
        else:
            place.again(returncode)

    def _note(self, returncode: int) -> None:
        status = returncode if returncode >= 0 else 128 - returncode
        self._status = self._status or status

    def _stopped(self, place: Place, returncode: int) -> None:
        """Note an end after a stop."""
        if returncode != -signal.SIGTERM:  # it had claimed nothing: it had no handler yet
            self._note(returncode)

    def _drain(self) -> None:
        """Stop all processes and wait for them; kill what outlives its time."""
        self._lifeline.close()
        deadline, hurried = monotonic() + self._drain_seconds + SLACK_SECONDS, False
        while self._alive():
            if self._stop.status:
                deadline = deadline if hurried else min(deadline, monotonic() + SLACK_SECONDS)
                hurried = True
                self._hurry()
            if monotonic() >= deadline:
                self._kill()
            left = max(deadline - monotonic(), AGAIN_SECONDS / 2)
            self._wakeup.sleep(min(left, AGAIN_SECONDS) if hurried else left)
            self._reap(self._stopped)

    def _alive(self) -> list[subprocess.Popen[bytes]]:
        return [place.process for place in self._places if place.process is not None]

    def _hurry(self) -> None:
        """Send two signals, of two kinds: two of one kind may arrive as one."""
        for process in self._alive():
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)

    def _kill(self) -> None:
        for process in self._alive():
            logger.error("process %s did not end in time: killed", process.pid)
            os.killpg(process.pid, signal.SIGKILL)  # with what its tasks have started
