"""Which queues a worker serves: those it was told, or all that have jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic

FRESH_SECONDS = 30.0  # a queue that rang so lately is served before a look has seen its jobs


class Served:
    """The names in turn order; with none given they follow what the sweeper sees.

    A queue without ready jobs is left out again: each one costs every claim a probe.
    """

    def __init__(self, names: Sequence[str], *, changed: Callable[[], None]) -> None:
        """``names``: those to serve, none for every queue; ``changed`` is called for a new one."""
        self.dynamic = not names
        self.names: list[str] = list(names)
        self._changed = changed
        self._lock = Lock()  # the sweeper and the listener both bring names
        self._heard: dict[str, float] = {}

    def hear(self, name: str) -> bool:
        """Note a bell; return whether its queue is served."""
        if not self.dynamic:
            return name in self.names
        with self._lock:
            self._heard[name] = monotonic()
            if name not in self.names:
                self.names = [*self.names, name]
        return True

    def learn(self, ready: Sequence[str]) -> None:
        """Take the queues that have ready jobs; those keep their turn that were known."""
        with self._lock:
            since = monotonic() - FRESH_SECONDS
            self._heard = {name: at for name, at in self._heard.items() if at > since}
            wanted = dict.fromkeys([*ready, *self._heard])
            new = [name for name in wanted if name not in self.names]
            self.names = [name for name in self.names if name in wanted] + new
        if new:
            self._changed()
