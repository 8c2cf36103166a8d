"""An exception that is raised in the thread of one run, and in no other run of it."""

from __future__ import annotations

import ctypes
from threading import Lock, get_ident

from django_jobs.exceptions import JobInterrupted

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Interrupt:
    """Belongs to one run; raises one exception in its thread, once at most.

    Python raises it when the thread next executes an instruction of Python's. The lock is
    the fence: whoever sends does so while the run is open, and to shut it takes back what
    has been sent and not yet raised. So nothing is under way when the next run begins.
    """

    __slots__ = ("_lock", "_sent", "_thread")

    def __init__(self) -> None:
        """Nobody can be interrupted yet."""
        self._lock = Lock()
        self._thread: int | None = None
        self._sent = False

    def open(self) -> None:
        """Let the calling thread be interrupted from here on."""
        with self._lock:
            self._thread = get_ident()

    def shut(self) -> None:
        """Let it no longer be; what has been sent may still be raised in here."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None and self._sent:
                _raise_in(ctypes.c_ulong(thread), None)

    def send(self, interruption: type[JobInterrupted]) -> bool:
        """Interrupt the run, from any thread; False: it is not open, or has been."""
        with self._lock:
            if self._thread is None or self._sent:
                return False
            self._sent = True
            _raise_in(ctypes.c_ulong(self._thread), ctypes.py_object(interruption))
            return True
