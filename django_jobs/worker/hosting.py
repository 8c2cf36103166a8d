"""What this worker's host offers, which placements it fits, and which it passes over."""

from __future__ import annotations

import logging
import platform
import socket
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from uuid import UUID

from django_jobs.exceptions import UnknownTask
from django_jobs.operations.place import needs_of, place
from django_jobs.operations.skip import Skipped, skip
from django_jobs.placement import LABEL, Host, Needs, lasting
from django_jobs.sql import Database, Row
from django_jobs.tasks import resolve

logger = logging.getLogger("django_jobs.worker")

AGAIN_SECONDS = 300.0  # until a failed import is tried, and what a hand took away written, again
MANY = 100  # placements fitted at once: each costs every claim a probe a queue
ANYWHERE = Needs()


def machine_names() -> frozenset[str]:
    """Return the names of this machine, without asking a network."""
    name = socket.gethostname()
    return frozenset({name, name.partition(".")[0]})


def automatic_labels() -> frozenset[str]:
    """Return what every worker says of its machine: ``os:linux``, ``python:3.13``."""
    found = {
        f"os:{platform.system().lower()}",
        f"arch:{platform.machine()}",
        f"python:{sys.version_info[0]}.{sys.version_info[1]}",
    }
    return frozenset(label for label in found if LABEL.fullmatch(label))


def knows(path: str) -> bool:
    """Tell whether this process can run a task; its module may be imported."""
    try:
        resolve(path)
    except UnknownTask:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Fit:
    """A placement that this host could run now or later, and what its jobs hold."""

    id: int
    amounts: Mapping[str, float] = field(default_factory=dict)


class Hosting:
    """The placements as this process last read them.

    The sweeper reads and judges them, for that may import modules; the loop only takes what
    has been found: ``fits``, replaced as a whole.
    """

    def __init__(self, host: Host, *, name: str, worker: UUID) -> None:
        """``name`` is the host in what is recorded."""
        self.host = host
        self.fits: tuple[Fit, ...] = (Fit(0),)
        self._name = name
        self._worker = worker
        self._known: dict[int, Needs] = {0: ANYWHERE}
        self._amounts: dict[int, Mapping[str, float]] = {}  # also of rows that were taken away
        self._seen: tuple[int, int] | None = None  # as the placements were read last
        self._noted: tuple[int, int] | None = None  # as a claim saw them last
        self._told: dict[int, tuple[str, str]] = {}  # placement → what is recorded
        self._lock = Lock()  # the loop notes a change, the sweeper that it has read it
        self._read_at = 0.0
        self._warned = False

    @property
    def asks_for_tasks(self) -> bool:
        """Whether some placement requires the code of a task."""
        return any(needs.task is not None for needs in self._known.values())

    @property
    def is_stale(self) -> bool:
        """Whether the placements must be read."""
        return self._seen is None or monotonic() - self._read_at > AGAIN_SECONDS

    def amounts(self, placement: int) -> Mapping[str, float]:
        """Return what a job of this placement holds while it runs."""
        return self._amounts.get(placement, {})

    def note(self, placements: tuple[int, int]) -> bool:
        """Take what a claim saw of them; return whether they must be read again."""
        with self._lock:
            self._noted = placements
            if placements != self._seen:
                self._seen = None
            return self._seen is None

    def doubt(self) -> None:
        """Claim for any host alone until they are read: the tables may have been emptied.

        With them go the ids: a new placement may have that of an old one.
        """
        with self._lock:
            self._noted = self._seen = None
            self.fits = (Fit(0),)

    def refresh(self, database: Database) -> None:
        """Read the placements, judge each, and record what has changed."""
        noted = self._noted
        rows = database.fetch("placements", {})
        known = {0: ANYWHERE, **_readable(rows)}
        found = {pk: next(lasting(needs, self.host), None) for pk, needs in known.items()}
        fitting = [pk for pk, reason in found.items() if reason is None]
        self._known = known
        amounts = {pk: needs.amounts for pk, needs in known.items()}
        self._amounts = {**self._amounts, **amounts}
        self.fits = tuple(Fit(pk, amounts[pk]) for pk in fitting)  # last: what it lets in counts
        self._warn(len(fitting))
        skipped = {pk: (m.reason.value, m.detail) for pk, m in found.items() if m is not None}
        self._record(skipped, fitting, database)
        read = len(rows), sum(row[0] for row in rows)
        with self._lock:  # last: what failed is done again, and what came meanwhile is read
            self._seen = read if self._noted in (noted, read) else None
            self._read_at = monotonic()

    def _record(
        self, skipped: dict[int, tuple[str, str]], fitting: Collection[int], database: Database
    ) -> None:
        """Write what differs from what this process wrote last, and what is not there.

        Not what is there and reads otherwise: that is the word of another worker under the
        same name, and the two would overwrite each other for ever.
        """
        skip(
            [Skipped(pk, *why) for pk, why in skipped.items()],
            fitting,
            changed=[pk for pk, why in skipped.items() if self._told.get(pk) != why],
            host=self._name,
            worker=self._worker,
            database=database,
        )
        self._told = skipped

    def _warn(self, count: int) -> None:
        if count > MANY and not self._warned:
            self._warned = True
            logger.warning(
                "this host fits %s placements; each costs every claim a look a queue: ask for"
                " fewer different amounts",
                count,
            )

    def where_known(self, placement: int, task: str, *, database: Database) -> int | None:
        """Return the placement of jobs that ask the same and need ``task``; made if missing.

        None: nothing is known of the placement that the job has.
        """
        needs = self._known.get(placement)
        if needs is None:
            return None
        return place(Needs(requires=needs.requires, task=task), database=database)


def _readable(rows: Iterable[Row]) -> dict[int, Needs]:
    """Return the placements; one that a hand made wrong fits nowhere and stops nobody."""
    found: dict[int, Needs] = {}
    for pk, *said in rows:
        try:
            found[pk] = needs_of(*said)
        except ValueError as error:
            logger.warning("placement %s cannot be read: %s", pk, error)
    return found
