"""Whether a task's function takes the arguments of a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django_jobs.exceptions import InvalidCall
from django_jobs.tasks.result import AnyTask

EMPTY = inspect.Signature.empty


def misfit(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Tell why the function cannot be called with these arguments; None: it can be."""
    signature = _signature(task.func, task.takes_context)
    if signature is None:
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"{task.module_path}{signature} cannot be called with these arguments: {error}."
    return None


def check_call(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise ``InvalidCall`` when each attempt would fail for its arguments alone."""
    if (fault := misfit(task, args, kwargs)) is not None:
        raise InvalidCall(fault)


@lru_cache(maxsize=10_000)
def _signature(function: Callable[..., Any], takes_context: bool) -> inspect.Signature | None:
    """Return what the function takes beside the context; None when nobody can tell.

    What it wraps is not asked: a decorator may add arguments, or take some away.
    """
    try:
        found = inspect.signature(function, follow_wrapped=False)
    except (AttributeError, NameError, TypeError, ValueError):  # such as late annotations
        return None
    taken = [each.replace(annotation=EMPTY) for each in found.parameters.values()]
    return inspect.Signature(taken[1:] if takes_context else taken)
