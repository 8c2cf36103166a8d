"""From the path in a job's row to its task, and what stands in for one that is gone."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

from django_jobs.compat import Task
from django_jobs.exceptions import UnknownTask
from django_jobs.retries import class_name
from django_jobs.tasks.decorator import DEFAULTS
from django_jobs.tasks.faults import is_path
from django_jobs.tasks.job_task import JobTask
from django_jobs.tasks.result import AnyTask

T = TypeVar("T", bound=AnyTask)

_known: dict[str, AnyTask] = {}


def resolve(path: str) -> AnyTask:
    """Return the task at ``path``; its module may be imported, nothing is called.

    Raise ``UnknownTask`` when there is none. Only finds are remembered: a module whose
    import failed for a passing reason must not stay unknown for the life of the process.
    """
    try:
        return _known[path]
    except KeyError:
        _known[path] = found = _find(path)
        return found


def _find(path: str) -> AnyTask:
    if not is_path(path):
        raise UnknownTask(path, "this is not a dotted path")
    place, _, name = path.rpartition(".")
    module = _imported(place, path)
    # Neither getattr() nor isinstance(): a property, or a lazy object, would be called.
    found = vars(module).get(name) if issubclass(type(module), ModuleType) else None
    if found is None:
        raise UnknownTask(path, f"its module has no {name}")
    if not issubclass(type(found), Task):
        raise UnknownTask(path, f"a {class_name(type(found))} is there, not a task")
    if found.module_path != path:
        raise UnknownTask(path, f"the task there calls itself {found.module_path}")
    return cast("AnyTask", found)


def _imported(module: str, path: str) -> ModuleType:
    try:
        return import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that exits, or worse, is no reason to stop
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise UnknownTask(path, f"there is no module {module}") from None
        raise UnknownTask(path, f"importing {module} failed: {_told(error)}") from error


def _told(error: BaseException) -> str:
    try:
        return f"{error!r:.200}"
    except Exception:  # noqa: BLE001 - an exception may have any __repr__
        return class_name(type(error))


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def rebuild(task: T, **changes: Any) -> T:
    """Return ``task`` with ``changes``, unchecked: they come from a job's row."""
    kind: Any = type(task)
    new: T = object.__new__(kind)
    for name in _names(kind):
        object.__setattr__(new, name, changes[name] if name in changes else getattr(task, name))
    return new


def placeholder(path: str) -> JobTask[..., Any]:
    """Return a task in place of one that is gone; calling it raises ``UnknownTask``."""

    def gone(*args: object, **kwargs: object) -> None:
        raise UnknownTask(path)

    gone.__module__, _, gone.__qualname__ = path.rpartition(".")
    gone.__name__ = gone.__qualname__
    new: JobTask[..., Any] = object.__new__(JobTask)
    values = {item.name: item.default for item in fields(JobTask)} | DEFAULTS | {"func": gone}
    for name, value in values.items():
        object.__setattr__(new, name, value)
    return new
