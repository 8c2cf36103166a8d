"""Tasks of every kind, for the tests of what a task is."""

from __future__ import annotations

from typing import Any

from django_jobs import linear, task
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


class Shelf:
    """A class that holds a task."""

    @task
    def dust(shelf: str) -> None:  # noqa: N805 - a function of the class, not of its objects
        """Do nothing."""


def undecorated() -> None:
    """Do nothing, and be no task."""


def rule(error: BaseException, result: Any) -> float | None:
    return 3.0 if isinstance(error, OSError) and result else None


LAMBDA = lambda: None  # noqa: E731 - it is at the top of a module, as Django asks
elsewhere = task(undecorated)  # under another name than its function's
