"""An exception that is raised in the thread of one run, and in no other run of it."""

from __future__ import annotations

import ctypes
import logging
from contextlib import suppress
from threading import Lock, RLock, get_ident
from typing import Any

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

    @property
    def was_sent(self) -> bool:
        """Whether the exception was sent; settled once the run is shut."""
        return self._sent

    def send(self, interruption: type[JobInterrupted]) -> bool:
        """Interrupt the run, from any thread; False: it is not open, or has been."""
        with self._lock:
            if self._thread is None or self._sent:
                return False
            self._sent = True
            _raise_in(ctypes.c_ulong(self._thread), ctypes.py_object(interruption))
            return True


def open_locks_of_logging() -> None:
    """Give back the locks of logging that an interruption has left with the calling thread.

    Before Python 3.13 a handler takes its lock in one step and minds errors from the next
    one on. What is raised between them leaves it shut, and every thread that logs would wait
    for ever.
    """
    private = vars(logging)
    handlers: list[Any] = [reference() for reference in list(private["_handlerList"])]
    for lock in [private["_lock"], *(getattr(handler, "lock", None) for handler in handlers)]:
        if isinstance(lock, type(RLock())):
            with suppress(RuntimeError):  # it is another thread's, or nobody's
                while True:
                    lock.release()
