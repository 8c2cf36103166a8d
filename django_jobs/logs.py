"""Which job a line of the log is about: a filter for the LOGGING of a site."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

NONE = "-"  # outside of a run


class Named(Protocol):
    """A job as lines of the log name it."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def task(self) -> str:
        """The path of its task."""

    @property
    def queue(self) -> str:
        """The queue that it was enqueued to."""

    @property
    def attempt(self) -> int:
        """The ordinal of the attempt."""


class About(NamedTuple):
    """A job outside of its run."""

    id: int
    task: str
    queue: str
    attempt: int


# The job of the run under way here. Threads, coroutines and processes that run jobs give
# each run a context of its own, so there is nothing to reset after it.
JOB: ContextVar[Named | None] = ContextVar("django_jobs.job", default=None)


@contextmanager
def about(job: Named | None) -> Iterator[None]:
    """Let what is logged inside the block be about ``job``."""
    token = JOB.set(job)
    try:
        yield
    finally:
        JOB.reset(token)


class JobFilter(logging.Filter):
    """Gives every record ``job_id``, ``task``, ``queue`` and ``attempt``; it drops none.

    Outside of a run each is "-". What a record has already is left as it is, so one that
    comes from a queue or another process keeps its job.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields."""
        job = JOB.get()
        fields = record.__dict__
        fields.setdefault("job_id", NONE if job is None else job.id)
        fields.setdefault("task", NONE if job is None else job.task)
        fields.setdefault("queue", NONE if job is None else job.queue)
        fields.setdefault("attempt", NONE if job is None else job.attempt)
        return True


# Our own lines

OURS = ("django_jobs", "django_jobs.enqueue", "django_jobs.metrics", "django_jobs.worker")


def make_sturdy(name: str) -> None:
    """Let no handler or filter of the site that raises end what merely logs.

    The class of the logger may be the site's, so it is the one method that is wrapped.
    """
    logger = logging.getLogger(name)
    handle = logger.handle
    if getattr(handle, "is_sturdy", False):
        return

    def sturdy(record: logging.LogRecord) -> None:
        try:
            handle(record)
        except Exception:  # noqa: BLE001 - there is nobody left to tell, but for this
            if logging.raiseExceptions and sys.stderr is not None:
                traceback.print_exc()

    sturdy.is_sturdy = True  # type: ignore[attr-defined]
    logger.handle = sturdy  # type: ignore[method-assign]


for each in OURS:
    make_sturdy(each)
