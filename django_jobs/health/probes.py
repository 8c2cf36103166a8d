"""Is the worker alive, and is it ready? The two questions, and what is said of it."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django_jobs.health.round_trip import RoundTrip

SERVICE = "django_jobs"
SLACK = 15.0  # seconds beside a lease time: a connection that is made anew
UNREADY = ("starting", "stopped")
OK, UNAVAILABLE = 200, 503


class Subject(Protocol):
    """A worker, as far as it is judged; any thread may ask."""

    id: UUID
    name: str

    @property
    def state(self) -> str:
        """What it is about: starting, running, draining, stopped."""

    def silence(self) -> float:
        """Return for how many seconds its loop has been at one turn; asleep: 0."""


class Answer(NamedTuple):
    """What a probe is told."""

    status: int
    body: dict[str, Any]


def patience(*, lease_seconds: float, watchdog_seconds: float) -> float:
    """Return how long the loop may be silent.

    One that waits for the database is cut off after a lease time, and is no reason to
    restart anything; the watchdog ends the process in any case.
    """
    return min(lease_seconds + max(lease_seconds, SLACK), watchdog_seconds)


class Probes:
    """Judges one worker, and says who it is with every answer."""

    def __init__(self, subject: Subject, *, silent_after: float, database: RoundTrip) -> None:
        """``silent_after``: seconds of one turn of the loop that are too long."""
        self._subject = subject
        self._silent_after = silent_after
        self._database = database

    def live(self) -> Answer:
        """Judge by the claim loop's own last turn; no database is asked."""
        silence = self._subject.silence()
        if silence > self._silent_after:
            return self._answer(f"the claim loop has been at one turn for {silence:.0f} s")
        return self._answer(None)

    async def ready(self) -> Answer:
        """Judge by a round trip to the database, on a connection of its own."""
        if self._subject.state in UNREADY:
            return self._answer(f"it is {self._subject.state}")
        return self._answer(await self._database.fault())

    def _answer(self, fault: str | None) -> Answer:
        subject = self._subject
        body = {
            "service": SERVICE, "worker": str(subject.id), "name": subject.name,
            "pid": os.getpid(), "state": subject.state, "ok": fault is None, "fault": fault,
            "loop_seconds": round(subject.silence(), 3),
        }  # fmt: skip
        return Answer(OK if fault is None else UNAVAILABLE, body)
