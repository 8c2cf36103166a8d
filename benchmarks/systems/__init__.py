"""What is measured: one module a system, all with the same few answers.

Another peer is one more module here with a ``SYSTEM``, a site under ``benchmarks/sites/`` for
the code that runs in its own environment, and its name in ``NAMES``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from benchmarks.environment import Environment

NAMES = ("ours", "tasks_db", "plain_sql")


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start: the words after its interpreter, and its environment."""

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


class System(Protocol):
    """How a system is installed, filled, run and asked."""

    @property
    def name(self) -> str:
        """Its word on the command line."""

    @property
    def label(self) -> str:
        """Its word in the report."""

    @property
    def environment(self) -> Environment:
        """Where it is installed."""

    @property
    def table(self) -> str:
        """The table with one row a job."""

    @property
    def claimer(self) -> str:
        """The application_name of the session that claims, as LIKE has it."""

    def prepare(self, url: str) -> None:
        """Make its tables in an empty database."""

    def fill(self, url: str, jobs: int) -> str:
        """Insert no-op jobs in one transaction; return the id that is taken last."""

    def worker(self, url: str, *, cap: int) -> Command:
        """Return the worker with room for ``cap`` jobs, or with as many as it can have."""

    def waker(self, url: str) -> Command:
        """Return the worker whose time from enqueue to start is measured."""

    def enqueuer(self, url: str, *, count: int, seed: int) -> Command:
        """Return a process that enqueues at random moments and prints when, as JSON."""

    def is_final(self) -> str:
        """Return SQL that takes an id: has this job ended?"""

    def unfinished(self) -> str:
        """Return SQL: is there a job that has not ended?"""

    def count(self) -> str:
        """Return SQL that counts the jobs."""

    def wrong(self) -> str:
        """Return SQL that counts the jobs which did not succeed in exactly one attempt."""

    def starts(self) -> str:
        """Return SQL: id, and the moment at which its task looked at the clock."""


def system(name: str) -> System:
    """Return the system of that name."""
    found: System = import_module(f"benchmarks.systems.{name}").SYSTEM
    return found


def systems(names: Sequence[str] = NAMES) -> list[System]:
    """Return several."""
    return [system(name) for name in names]
