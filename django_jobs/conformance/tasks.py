"""The tasks that the conformance tests enqueue; they must be importable, so they stand here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_jobs.compat import django_task, task_backends
from django_jobs.tasks import AnyContext

runs: list[int] = []  # the thread of each run, in order
notes: list[Any] = []


class Boom(Exception):
    """What a task of these tests raises."""


@contextmanager
def fresh_runs() -> Iterator[list[int]]:
    """Forget what ran before."""
    runs.clear()
    notes.clear()
    yield runs


@django_task
def echo(*args: Any, **kwargs: Any) -> Any:
    """Return what it was given."""
    runs.append(threading.get_ident())
    return [list(args), kwargs]


@django_task
async def echo_later(value: Any) -> Any:
    """Return what it was given, from a coroutine."""
    return value


@django_task
def note(value: Any) -> None:
    """Write down what it was given."""
    notes.append(value)


@django_task
def fail(message: str) -> None:
    """Raise in every attempt."""
    runs.append(threading.get_ident())
    raise Boom(message)


@django_task
def fail_once() -> str:
    """Raise in the first attempt."""
    runs.append(threading.get_ident())
    if len(runs) == 1:
        raise Boom("the first time")
    return "the second time"


@django_task
def unsayable() -> Any:
    """Return what JSON has no word for."""
    runs.append(threading.get_ident())
    return {"rows": [1, object()]}


@django_task(takes_context=True)
def tell_context(context: AnyContext, word: str) -> Any:
    """Return what the context tells."""
    return [context.attempt, context.task_result.id, word]


@django_task(takes_context=True)
def tell_status(context: AnyContext) -> str:
    """Return the status that others see while this runs."""
    result = context.task_result
    return str(task_backends[result.backend].get_result(result.id).status)


def _renamed() -> None:
    """Stand in for a function that the next deploy renames."""


_renamed.__name__ = _renamed.__qualname__ = "renamed"
vanished = django_task(_renamed)  # its path leads nowhere, as after the deploy
