"""What tasks of a test wait at, and where they say what they saw."""

from __future__ import annotations

from threading import Event, Lock
from typing import Any


class Gate:
    """A lock of C, so that who waits for it executes no Python; each test has its own.

    Whoever was let through keeps the lock of its test, however late it comes.
    """

    def __init__(self) -> None:
        self._lock = Lock()

    def renew(self) -> None:
        """Shut a gate at which nobody stands yet."""
        self._lock = Lock()
        self._lock.acquire()

    def acquire(self) -> None:
        """Wait here, and shut the gate again on the way through."""
        self._lock.acquire()

    def release(self) -> None:
        """Let one through."""
        self._lock.release()

    def locked(self) -> bool:
        """Tell whether it is shut."""
        return self._lock.locked()


begun = Event()
gate = Gate()
seen: list[Any] = []
