"""A sleep that a signal, a bell, a finished run or a timer cuts short."""

from __future__ import annotations

import os
import selectors
from contextlib import suppress


class Wakeup:
    """A self-pipe (https://cr.yp.to/docs/selfpipe.html): safe to write from a signal handler."""

    def __init__(self) -> None:
        """Open the pipe; close() gives it back."""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reader, selectors.EVENT_READ)
        self._written = False
        self.sleeping = False

    def wake(self) -> None:
        """End the sleep, or the next one; cheap when that is already sure."""
        if not self._written:
            self._written = True
            self.interrupt()

    def interrupt(self) -> None:
        """Write one byte: what a signal handler may do."""
        with suppress(BlockingIOError):  # the pipe is full: a wake-up is already waiting
            os.write(self._writer, b".")

    def sleep(self, seconds: float | None) -> None:
        """Sleep until woken, at most ``seconds``; None: without a bound."""
        self.sleeping = True
        woken = self._selector.select(seconds)
        self.sleeping = False
        if woken:
            with suppress(BlockingIOError):
                os.read(self._reader, 4096)
            # only now: a wake between the read and here is seen by the caller, who is awake
            self._written = False

    def close(self) -> None:
        """Close the pipe."""
        self._selector.close()
        os.close(self._reader)
        os.close(self._writer)
