"""Tasks of every kind, for the tests of what a task is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from django_jobs import JobContext, SnoozeJob, linear, task
from django_jobs.compat import django_task


@task
def add(a: Any, b: Any = 0) -> Any:
    return a + b


@task(
    queue_name="mail",
    priority=7,
    max_attempts=5,
    backoff=linear(base=3, cap=60),
    retry_on=(OSError, LookupError),
    give_up_on=(FileNotFoundError,),
    keep_dead=False,
    idempotent=False,
    metadata={"team": "shop"},
)
def send(order: int, *, customer: int) -> str:
    return f"{order}/{customer}"


@django_task
def plain(**kwargs: Any) -> Any:
    return kwargs


@task
def echo(**kwargs: Any) -> Any:
    return kwargs


@task
async def later(value: str) -> str:
    return value


@task(takes_context=True)
def attempt_of(context: JobContext, value: Any = None) -> list[Any]:
    return [context.attempt, context.lease_lost, context.metadata, value]


@task(timeout=0.1, isolation="process", memory_mb=1)
def process_id(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@task
def snooze_for(seconds: float) -> None:
    raise SnoozeJob(seconds)


def with_a_shelf(function: Callable[..., str]) -> Callable[[str], str]:
    @wraps(function)
    def call(word: str) -> str:
        return function("shelf", word)

    return call


@task
@with_a_shelf
def filled(shelf: str, word: str) -> str:
    return f"{shelf}: {word}"


class Shelf:
    """A class whose methods are no tasks."""

    def dust(self) -> None:
        """Do nothing."""

    @staticmethod
    def sort() -> None:
        """Do nothing."""


def undecorated() -> None:
    """Do nothing, and be no task."""


def rule(error: BaseException, result: Any) -> float | None:
    return 3.0 if isinstance(error, OSError) and result else None


LAMBDA = lambda: None  # noqa: E731 - it is at the top of a module, as Django asks
elsewhere = task(undecorated)  # under another name than its function's
