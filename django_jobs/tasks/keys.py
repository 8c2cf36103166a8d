"""What a job's row keeps of one call: the keys that are made of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django_jobs.exceptions import InvalidLimit
from django_jobs.limits import Limit, key_of
from django_jobs.tasks.arguments import arguments_by_name


def keys_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that differ from call to call; none for most tasks.

    The call fits the function. Raises ``InvalidLimit`` with the name of the task.
    """
    if getattr(task, "limit", None) is None and getattr(task, "unique", None) is None:
        return {}
    given = arguments_by_name(task, args, kwargs)
    try:
        return _limit(task.limit, args, kwargs, given) | _unique(task, args, kwargs, given)
    except InvalidLimit as error:
        raise InvalidLimit(f"{task.module_path}: {error}") from error.__cause__


def _limit(
    limit: Limit | None, args: Sequence[Any], kwargs: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    if limit is None:
        return {}
    facts = limit.facts(args, kwargs, given)
    return {
        "limit_key": facts.key,
        "limit_size": facts.size,
        "limit_every": facts.every,
        "limit_burst": facts.burst,
        "limit_discard": facts.discard,
    }


def _unique(
    task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    if task.unique is None:
        return {}
    key = key_of(task.unique, args, kwargs, given, what="unique")
    return {"unique_key": key, "on_conflict": task.on_conflict}
