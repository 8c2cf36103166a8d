"""The run that a process of its own makes, whose worker minds another half of it."""

from __future__ import annotations

from collections.abc import Callable

from django_jobs.operations.claim import Claimed
from django_jobs.worker.run import Run


class ToldRun(Run):
    """Tells its worker before it commits its own outcome."""

    __slots__ = ("_is_settling", "_tell_settling")

    def __init__(self, job: Claimed, *, tell_settling: Callable[[], None]) -> None:
        """``tell_settling`` returns when the worker knows."""
        self._is_settling = False
        self._tell_settling = tell_settling
        super().__init__(job)

    @property
    def settling(self) -> bool:
        """Whether its lease may be gone because it has committed."""
        return self._is_settling

    @settling.setter
    def settling(self, now: bool) -> None:
        self._is_settling = now
        if now:
            self._tell_settling()
