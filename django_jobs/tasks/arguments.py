"""Whether a task's function takes the arguments of a call, and what it calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django_jobs.exceptions import InvalidCall
from django_jobs.tasks.result import AnyTask

EMPTY = inspect.Signature.empty
STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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


def arguments_by_name(
    task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call that fits, by name, defaults included.

    What ``*args`` takes has no names; where nobody can tell the names, keywords are all.
    """
    signature = _signature(task.func, task.takes_context)
    if signature is None:
        return dict(kwargs)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    for each in signature.parameters.values():
        if each.kind in STARRED:
            rest = given.pop(each.name)
            given |= rest if each.kind is each.VAR_KEYWORD else {}
    return given


def unknown_name(task: AnyTask, names: Iterable[str]) -> str | None:
    """Return the first of ``names`` that no argument of the task can have."""
    signature = _signature(task.func, task.takes_context)
    if signature is None:
        return None
    taken = signature.parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in taken):
        return None
    known = {each.name for each in taken if each.kind not in STARRED}
    return next((name for name in names if name not in known), None)


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
