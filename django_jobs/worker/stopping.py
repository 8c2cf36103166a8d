"""What stops a worker: a signal, a second one, a call; and by when it must have ended."""

from __future__ import annotations

import signal
from time import monotonic
from types import FrameType

from django_jobs.worker.wakeup import Wakeup

RECYCLED = 70  # exit status: places were stuck, and a new process has them again
LATE_SECONDS = 3.0  # what handing back and saying goodbye may take


class Stop:
    """Read by the loop's thread and the watchdog's; written by signals and callers."""

    def __init__(self, wakeup: Wakeup, *, seconds: float) -> None:
        """``wakeup`` is cut short by a stop; ``seconds`` is what runs have to finish."""
        self._wakeup = wakeup
        self._seconds = seconds
        self._signals: list[int] = []
        self._asked = False
        self._owns_process = False
        self._status = 0
        self._deadline: float | None = None

    def handle_signals(self) -> None:
        """Let SIGTERM and SIGINT stop the worker; needs the main thread."""
        self._owns_process = True
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._on_signal)

    def _on_signal(self, signum: int, _frame: FrameType | None) -> None:
        self._signals.append(signum)
        self._wakeup.interrupt()

    def ask(self) -> None:
        """Stop; from any thread."""
        self._asked = True
        self._wakeup.wake()

    def recycle(self) -> None:
        """Stop because places are stuck; called by the loop's thread."""
        self._asked = True
        self._status = RECYCLED

    @property
    def is_asked(self) -> bool:
        """Whether nothing more may be claimed."""
        return self._asked or bool(self._signals)

    def begin(self) -> None:
        """Start the time that runs have to finish, if nothing has started it yet."""
        if self._deadline is None:
            self._deadline = monotonic() + self._seconds

    def left(self) -> float:
        """Return the seconds until the rest is handed back; a second signal makes it none."""
        if self._deadline is None or len(self._signals) > 1:
            return 0.0
        return max(self._deadline - monotonic(), 0.0)

    @property
    def status(self) -> int:
        """The exit status: 0 for a drain, 70 for a recycle, 128 + n after a second signal."""
        return 128 + self._signals[1] if len(self._signals) > 1 else self._status

    def overdue(self) -> int | None:
        """Return the exit status when the end is overdue, as a dead database can make it."""
        if not self._owns_process or (self._deadline is None and not self.is_asked):
            return None
        self.begin()  # the loop may hang in a statement and not have noticed
        assert self._deadline is not None
        if len(self._signals) > 1:
            self._deadline = min(self._deadline, monotonic())
        return self.status if monotonic() > self._deadline + LATE_SECONDS else None
