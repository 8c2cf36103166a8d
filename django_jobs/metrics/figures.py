"""What one database says of its queues, asked once however many want to know it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic

from django_jobs.metrics.connection import ScrapeConnection
from django_jobs.sql import Row
from django_jobs.sql.private import brief

logger = logging.getLogger("django_jobs.metrics")

FRESH_SECONDS = 5.0  # for which an answer serves every scrape
SLOW_SECONDS = (50.0, 60.0)  # times what it took, and at most: until a slow one is sent again
FAILED_SECONDS = 1.0
LATE_SECONDS = 15.0  # an answer so old is no longer taken for one of a busy database
HUNG_SECONDS = 10.0  # after which the line of a statement without an answer is cut
COUNTED = 10_000  # jobs of one queue and state; more are not told apart
MOST_QUEUES = 100
MOST_LANES = 30  # of one queue: a placement and a priority
LOOKED = 100  # jobs of one lane, to find the oldest


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One queue as the database sees it."""

    ready: int = 0
    oldest: float = 0.0
    dead: int = 0
    scheduled: int = 0
    blocked: int = 0

    def __add__(self, other: QueueFigures) -> QueueFigures:
        """Take two of one name together: aliases may share it."""
        return QueueFigures(
            self.ready + other.ready,
            max(self.oldest, other.oldest),
            self.dead + other.dead,
            self.scheduled + other.scheduled,
            self.blocked + other.blocked,
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """One database's answer."""

    at: float  # monotonic
    workers: int = 0
    running: int = 0
    stuck: int = 0
    notifications: float = 0.0
    snapshot: float = 0.0
    queues: dict[str, QueueFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to ask one database: aliases of TASKS, and the queues that they name."""

    aliases: tuple[str, ...]
    queues: tuple[tuple[str, str], ...]  # alias and name


def read(database: ScrapeConnection, wanted: Wanted) -> Figures:
    """Send the one statement."""
    rows = database.fetch(
        "scrape",
        {
            "aliases": list(wanted.aliases),
            "backends": [alias for alias, _ in wanted.queues],
            "queues": [name for _, name in wanted.queues],
            "most": MOST_QUEUES,
            "counted": COUNTED,
            "lanes": MOST_LANES,
            "looked": LOOKED,
        },
    )
    workers, running, stuck, notifications, snapshot = rows[0][6:]
    return Figures(
        at=monotonic(),
        workers=workers,
        running=running,
        stuck=stuck,
        notifications=notifications,
        snapshot=snapshot,
        queues=_by_name(rows),
    )


def _by_name(rows: Sequence[Row]) -> dict[str, QueueFigures]:
    queues: dict[str, QueueFigures] = {}
    for name, *figures in (row[:6] for row in rows if row[0] is not None):
        queues[name] = queues.get(name, QueueFigures()) + QueueFigures(*figures)
    return queues


class Source:
    """Answers at once or nearly so: a thread of its own asks, and one at a time.

    A scrape waits a moment for it. When nothing comes it gets the last answer there was.
    """

    def __init__(self, alias: str) -> None:
        self._database = ScrapeConnection(alias)
        self._condition = Condition()
        self._last: Figures | None = None
        self._next_at = 0.0  # monotonic; before then nobody asks
        self._since: float | None = None  # when the statement under way began
        self._works = False
        self._told = False

    def ask(self, wanted: Wanted) -> None:
        """See that a fresh answer is there or under way; wait for nothing."""
        with self._condition:
            if self._since is None and monotonic() >= self._next_at:
                self._begin(wanted)
            elif self._since is not None and monotonic() - self._since > HUNG_SECONDS:
                self._database.hang_up()

    def answer(self, *, deadline: float) -> tuple[Figures | None, bool]:
        """Return the latest answer, if there is any, and whether the database answers."""
        with self._condition:
            patience = max(deadline - monotonic(), 0.0)
            answered = self._condition.wait_for(lambda: self._since is None, patience)
            last = self._last
            is_late = last is None or monotonic() - last.at > LATE_SECONDS
            return last, self._works and (answered or not is_late)

    def _begin(self, wanted: Wanted) -> None:
        self._since = monotonic()
        thread = Thread(target=self._ask, args=[wanted], name="jobs-metrics", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has none to give: the next scrape tries again
            self._since, self._works = None, False

    def _ask(self, wanted: Wanted) -> None:
        """Thread body: ask once."""
        begun, found = monotonic(), None
        try:
            found = read(self._database, wanted)
        except Exception as error:  # noqa: BLE001 - whatever it is, the last answer serves
            self._complain(error)
        with self._condition:
            self._since, self._works = None, found is not None
            self._last = found or self._last
            self._next_at = monotonic() + (
                _pause(monotonic() - begun) if found else FAILED_SECONDS
            )
            self._condition.notify_all()

    def _complain(self, error: Exception) -> None:
        if self._works or not self._told:
            self._told = True
            logger.warning("metrics: database %r: %s", self._database.alias, brief(error))


def _pause(seconds: float) -> float:
    """Return for how long an answer serves that took ``seconds``."""
    times, most = SLOW_SECONDS
    return max(FRESH_SECONDS, min(times * seconds, most))
