"""The jobs that a job shall wait for, as they are given and as they are written."""

from __future__ import annotations

from collections.abc import Iterable

from django_jobs.exceptions import UnknownParent
from django_jobs.tasks.ids import is_id
from django_jobs.tasks.result import AnyResult, AnyTask

NO_ID = "that is not the id of a job; give what enqueue() returned, or its id."


def ids_of(given: Iterable[AnyResult | str | int]) -> tuple[str, ...]:
    """Return the ids of results and ids, each once; other backends have ids of other kinds."""
    if isinstance(given, (str, int)) or hasattr(given, "id"):
        raise TypeError(f"depends_on={given!r:.120} must be a list; say depends_on=[…]")
    return tuple(dict.fromkeys(str(getattr(item, "id", item)) for item in given))


def parents_of(task: AnyTask) -> tuple[int, ...]:
    """Return the jobs that a job of this task shall wait for."""
    given = getattr(task, "depends_on", ())
    if wrong := [item for item in given if not is_id(item)]:
        raise UnknownParent(wrong, NO_ID)
    return tuple(map(int, given))
