"""``@task``, in place of ``django.tasks.task``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from django_jobs.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
)
from django_jobs.conf import did_you_mean
from django_jobs.limits import Limit
from django_jobs.placement import Requires
from django_jobs.tasks.job_task import (
    OTHER_OPTIONS,
    BackoffRule,
    Isolation,
    JobTask,
    OnConflict,
    UniqueKey,
)
from django_jobs.tasks.result import AnyContext

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=AnyContext)

DEFAULTS: dict[str, Any] = {  # the Task of Django 6.0 has none
    "priority": DEFAULT_TASK_PRIORITY,
    "queue_name": DEFAULT_TASK_QUEUE_NAME,
    "backend": DEFAULT_TASK_BACKEND_ALIAS,
    "run_after": None,
    "takes_context": False,
}
PER_CALL = ("run_after", "run_in", "depends_on", "after_failure")
OPTIONS = {item.name for item in fields(JobTask)} - {"func", *PER_CALL}


class TaskOptions(TypedDict, total=False):
    """What ``task`` takes beside ``takes_context``."""

    priority: int
    queue_name: str
    backend: str
    max_attempts: int | None
    backoff: BackoffRule | None
    retry_on: tuple[type[BaseException], ...]
    give_up_on: tuple[type[BaseException], ...]
    keep_dead: bool
    idempotent: bool
    timeout: timedelta | float | None
    atomic: bool
    isolation: Isolation
    memory_mb: int | None
    metadata: Mapping[str, Any] | None
    requires: Requires | None
    limit: Limit | None
    unique: UniqueKey | None
    on_conflict: OnConflict
    expires_after: timedelta | float | None


class Declare(Protocol):
    """A decorator of functions; the result of a coroutine function is what it returns."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> JobTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobTask[P, R]: ...


class DeclareWithContext(Protocol):
    """A decorator of functions whose first argument is the context."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], /
    ) -> JobTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[C, P], R], /) -> JobTask[P, R]: ...


@overload
def task(
    function: Callable[P, Coroutine[Any, Any, R]], /, **options: Unpack[TaskOptions]
) -> JobTask[P, R]: ...
@overload
def task(function: Callable[P, R], /, **options: Unpack[TaskOptions]) -> JobTask[P, R]: ...
@overload
def task(
    *, takes_context: Literal[True], **options: Unpack[TaskOptions]
) -> DeclareWithContext: ...
@overload
def task(*, takes_context: Literal[False] = False, **options: Unpack[TaskOptions]) -> Declare: ...
def task(function: Any = None, /, **options: Any) -> Any:
    """Make a task of a function: ``@task``, or ``@task(queue_name="mail", …)``."""
    _check_names(options)

    def declare(function: Callable[..., Any]) -> JobTask[..., Any]:
        return JobTask(func=function, **(DEFAULTS | options))

    return declare if function is None else declare(function)


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if name in PER_CALL:
            raise TypeError(
                f"task() takes no {name}, which differs from call to call; "
                "say using(run_after=…).enqueue(…).",
            )
        if name not in OPTIONS:
            near = did_you_mean(OTHER_OPTIONS.get(name, name), OPTIONS)
            raise TypeError(f"task() has no option {name!r}.{near}")
