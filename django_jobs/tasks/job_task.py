"""A task that can be enqueued, with the options of django_jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeAlias, TypeVar

from django.db import transaction
from django.utils import timezone

from django_jobs import payloads
from django_jobs.compat import InvalidTask, Task, TaskResult
from django_jobs.retries import Backoff
from django_jobs.tasks.faults import faults, metadata_text
from django_jobs.tasks.result import AnyResult

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

if TYPE_CHECKING:  # generic in the type stubs alone
    Base = Task
else:

    class Base(Task, Generic[P, R]):
        """Django's Task, generic also where it is not."""

        __slots__ = ()


BackoffRule: TypeAlias = Backoff | Callable[[BaseException, AnyResult], float | None]


@dataclass(frozen=True, slots=True)
class Call(Generic[R_co]):
    """A task and the arguments of one call, for ``enqueue_many``."""

    task: Task[..., R_co]
    args: Sequence[Any]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTask(Base[P, R]):
    """A function and how its jobs are run; None leaves an option to the settings."""

    max_attempts: int | None = None
    backoff: BackoffRule | None = None
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()
    keep_dead: bool = True
    idempotent: bool = True
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    delay: timedelta | None = None

    # Zero-argument super() fails in a slotted dataclass before Python 3.14, so Base is named.

    def __post_init__(self) -> None:
        """Refuse what could not be enqueued, where it is declared."""
        Base.__post_init__(self)
        for name in ("retry_on", "give_up_on"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        for fault in faults(self):
            raise InvalidTask(f"{self.module_path}: {fault}.")
        if self.metadata is not None:  # a copy: nobody else changes it later
            object.__setattr__(self, "metadata", payloads.loads(metadata_text(self.metadata)))

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return this task with other values; a timedelta counts from the enqueue."""
        changes: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "backend": backend,
            "metadata": metadata,
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        if isinstance(run_after, timedelta):
            changes |= {"run_after": None, "delay": run_after}
        elif run_after is not None:
            changes |= {"run_after": run_after, "delay": None}
        return replace(self, **changes)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult[P, R]:
        """Enqueue a job that calls the function with these arguments."""
        return self.get_backend().enqueue(self._timed(), list(args), kwargs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult[P, R]:
        """Enqueue from a coroutine."""
        return await self.get_backend().aenqueue(self._timed(), list(args), kwargs)

    def enqueue_on_commit(self, /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Enqueue once the caller's transaction has committed; without one, at once.

        Arguments and options are checked, and taken down, before this returns.
        """
        backend: Any = self.get_backend()
        if _is_ours(backend):
            backend.enqueue_on_commit(self.s(*args, **kwargs))
        else:
            backend.validate_task(self)
            transaction.on_commit(partial(self.enqueue, *args, **kwargs))

    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return one call, to be enqueued with others."""
        return Call(self, args, kwargs)

    def enqueue_many(self, calls: Iterable[Call[Any]]) -> list[str]:
        """Enqueue calls for this task's backend; return the ids in their order.

        All are checked before the first is inserted.
        """
        calls = list(calls)
        for place, call in enumerate(calls):
            _check_call(call, place=place, backend=self.backend)
        backend: Any = self.get_backend()
        if _is_ours(backend):
            ids: list[str] = backend.enqueue_many(calls)
            return ids
        return [call.task.enqueue(*call.args, **call.kwargs).id for call in calls]

    def _timed(self) -> Self:
        """Return what the backend can take: only ours measures a delay by itself."""
        if self.delay is None or _is_ours(self.get_backend()):
            return self
        return replace(self, run_after=timezone.now() + self.delay, delay=None)


def _is_ours(backend: object) -> bool:
    return getattr(backend, "is_of_django_jobs", False)


def _check_call(call: object, *, place: int, backend: str) -> None:
    if not isinstance(call, Call):
        raise TypeError(f"Item {place} is no call; make it with task.s(…), not task.enqueue(…).")
    if call.task.backend != backend:
        raise InvalidTask(
            f"Item {place} is for the backend {call.task.backend!r}, the task for {backend!r}; "
            f"enqueue it apart, or make it with task.using(backend={backend!r}).s(…).",
        )
