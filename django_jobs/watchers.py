"""Who is told of what a worker does; nobody, unless something measures it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

logger = logging.getLogger("django_jobs.worker")


class Working(Protocol):
    """A live worker, as far as it is measured; any thread may ask."""

    @property
    def places(self) -> int:
        """The most jobs that it holds."""

    @property
    def in_flight(self) -> int:
        """How many it holds."""

    @property
    def is_listening(self) -> bool:
        """Whether it hears the bell."""

    @property
    def queue_names(self) -> Sequence[str]:
        """The queues that it serves."""

    def silence(self) -> float:
        """Return for how many seconds its loop has been at one turn."""


class Ending(NamedTuple):
    """What became of a run, or of a job without one; written and committed."""

    queue: str
    outcome: str
    ran: float | None = None  # seconds; None: the task was not called, or was cut off
    waited: float | None = None  # seconds until its first attempt; None: it was another one


class Watcher(Protocol):
    """What measures workers; it must be quick, and may be called by any thread."""

    def started(self, worker: Working) -> None:
        """Hear that a worker begins to claim."""

    def stopped(self, worker: Working) -> None:
        """Hear that it has ended."""

    def ended(self, ending: Ending) -> None:
        """Hear how a run has ended."""


_watchers: list[Watcher] = []
_failed: set[str] = set()  # told of once, for there may be one for each job


def watch(watcher: Watcher) -> None:
    """Tell ``watcher`` from now on."""
    if watcher not in _watchers:
        _watchers.append(watcher)


def is_watched() -> bool:
    """Return whether there is anybody to tell."""
    return bool(_watchers)


def tell_start(worker: Working) -> None:
    """Tell all that a worker begins."""
    _tell("started", lambda watcher: watcher.started(worker))


def tell_stop(worker: Working) -> None:
    """Tell all that a worker has ended."""
    _tell("stopped", lambda watcher: watcher.stopped(worker))


def tell_end(ending: Ending) -> None:
    """Tell all how a run has ended."""
    _tell("ended", lambda watcher: watcher.ended(ending))


def _tell(what: str, call: Callable[[Watcher], None]) -> None:
    for watcher in _watchers:
        try:
            call(watcher)
        except Exception:
            if what not in _failed:
                _failed.add(what)
                logger.exception("a metric failed, which is told once: %s", what)
