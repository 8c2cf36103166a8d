"""What an examination finds, and what each check may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from django.db import transaction

from django_jobs.conf import Options
from django_jobs.sql import Row, SiteDatabase

Level = Literal["ok", "warning", "error"]
SECONDS = 2.0  # that a statement may take


class Finding(NamedTuple):
    """One sentence about one thing, and what to do about it."""

    check: str  # public, stable
    level: Level
    sentence: str
    cure: str = ""
    facts: Mapping[str, Any] = {}  # raw values, for scripts


@dataclass(frozen=True)
class Exam:
    """Where to look; it is only read, and every statement has a time limit."""

    backend: str
    database: str
    _site: SiteDatabase = field(init=False)

    def __post_init__(self) -> None:
        """Use the caller's connection."""
        object.__setattr__(self, "_site", SiteDatabase(self.database))

    @property
    def options(self) -> Options:
        """The settings of the backend."""
        return Options(self.backend)

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Read in a transaction that cannot write and is rolled back, its settings too."""
        with transaction.atomic(using=self.database):
            try:
                self._site.fetch("doctor_begin", {"timeout": f"{SECONDS * 1000:.0f}ms"})
                yield
            finally:
                transaction.set_rollback(True, using=self.database)

    def fetch(self, name: str, **params: Any) -> list[Row]:
        """Run ``sql/<name>.sql``; inside ``bounded()``."""
        return self._site.fetch(name, params)


Check = Callable[[Exam], Iterator[Finding]]


def span(seconds: float) -> str:
    """Say how long, roughly."""
    for size, word in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"


def named(names: list[str], most: int = 5) -> str:
    """List names, and how many more there are."""
    listed = ", ".join(names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"
