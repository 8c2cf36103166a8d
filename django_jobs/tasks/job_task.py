"""A task that can be enqueued, with the options of django_jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Never,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    cast,
)

from django.db import transaction
from django.utils import timezone

from django_jobs import payloads
from django_jobs.compat import (
    BaseTaskBackend,
    InvalidTask,
    InvalidTaskBackend,
    Task,
    task_backends,
)
from django_jobs.conf import backend_fault, did_you_mean
from django_jobs.limits import Limit
from django_jobs.placement import Requires
from django_jobs.retries import Backoff
from django_jobs.tasks.faults import faults, metadata_text, path_of
from django_jobs.tasks.kept import Kept
from django_jobs.tasks.parents import ids_of
from django_jobs.tasks.result import AnyResult, JobResult

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

if TYPE_CHECKING:  # generic in the type stubs alone
    Base = Task
else:

    class Base(Task, Generic[P, R]):
        """Django's Task, generic also where it is not."""

        __slots__ = ()


OTHER_WORDS = {  # what other queues call it
    "delay": "enqueue(…)",
    "apply_async": "enqueue(…), or using(run_after=…).enqueue(…)",
    "send": "enqueue(…)",
    "defer": "enqueue(…)",
}
OTHER_OPTIONS = {  # likewise
    "retries": "max_attempts",
    "soft_time_limit": "timeout",
    "time_limit": "timeout",
    "transaction": "atomic",
}
PER_CALL = (
    "priority",
    "queue_name",
    "run_after",
    "backend",
    "metadata",
    "requires",
    "limit",
    "unique",
    "on_conflict",
    "expires_after",
    "timeout",
    "depends_on",
    "after_failure",
)
BackoffRule: TypeAlias = Backoff | Callable[[BaseException, AnyResult], float | None]
UniqueKey: TypeAlias = str | Callable[..., str]
Isolation: TypeAlias = Literal["thread", "process"]
OnConflict: TypeAlias = Literal["return", "raise", "replace"]


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
    timeout: timedelta | float | Literal[Kept.KEPT] | None = Kept.KEPT  # seconds; None: none
    atomic: bool = False  # the run and its outcome commit together
    isolation: Isolation = "thread"
    memory_mb: int | None = None  # the most that a process of its own may take
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    requires: Requires | None = None  # None: what the queue says
    limit: Limit | None = None
    unique: UniqueKey | None = None  # no two live jobs of a backend have the same
    on_conflict: OnConflict = "return"
    expires_after: timedelta | float | None = None  # seconds; from the enqueue to the first start
    depends_on: tuple[str, ...] = ()  # ids of jobs that must end first
    after_failure: bool = False  # whatever way they end
    run_in: timedelta | None = None  # a run_after that the database's clock measures

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

    if not TYPE_CHECKING:  # else every name would pass for an attribute

        def __getattr__(self, name: str) -> Any:
            """Tell whoever comes from another queue what it is called here."""
            if name in OTHER_WORDS:
                words = f"has no {name}(); say {OTHER_WORDS[name]}"
                raise AttributeError(f"{path_of(self)} {words}", name=name, obj=self)
            kind = type(self).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)

    def get_backend(self) -> BaseTaskBackend:
        """Return the backend that TASKS names for this task."""
        try:
            return task_backends[self.backend]
        except (InvalidTaskBackend, KeyError, TypeError):
            fault = backend_fault(self.backend)
            if fault is None:
                raise
            told = f"{path_of(self)}: backend={self.backend!r:.120}, but {fault}"
            raise InvalidTaskBackend(told) from None

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        requires: Requires | Literal[Kept.KEPT] | None = Kept.KEPT,
        limit: Limit | Literal[Kept.KEPT] | None = Kept.KEPT,
        unique: UniqueKey | Literal[Kept.KEPT] | None = Kept.KEPT,
        on_conflict: OnConflict | None = None,
        expires_after: timedelta | float | Literal[Kept.KEPT] | None = Kept.KEPT,
        timeout: timedelta | float | Literal[Kept.KEPT] | None = Kept.KEPT,
        depends_on: Iterable[AnyResult | str | int] | None = None,
        after_failure: bool | None = None,
        **unknown: Never,
    ) -> Self:
        """Return this task with other values; a timedelta counts from the enqueue.

        ``requires=None`` goes back to what the queue says, ``Requires()`` is any host;
        None for ``limit``, ``unique``, ``expires_after`` and ``timeout`` is none.
        """
        for name in unknown:
            raise TypeError(f"using() has no option {name!r}.{_cure(name)}")
        changes: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "backend": backend,
            "metadata": metadata,
            "depends_on": None if depends_on is None else ids_of(depends_on),
            "after_failure": after_failure,
            "on_conflict": "return" if unique is None else on_conflict,
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        if isinstance(run_after, timedelta):
            changes |= {"run_after": None, "run_in": run_after}
        elif run_after is not None:
            changes |= {"run_after": run_after, "run_in": None}
        kept: dict[str, Any] = {
            "requires": requires,
            "limit": limit,
            "unique": unique,
            "expires_after": expires_after,
            "timeout": timeout,
        }
        changes |= {name: value for name, value in kept.items() if value is not Kept.KEPT}
        return replace(self, **changes)

    # The backends of others return Django's TaskResult; the hints speak of our own.

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobResult[P, R]:
        """Enqueue a job that calls the function with these arguments."""
        result = self.get_backend().enqueue(self._timed(), list(args), kwargs)
        return cast("JobResult[P, R]", result)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobResult[P, R]:
        """Enqueue from a coroutine."""
        result = await self.get_backend().aenqueue(self._timed(), list(args), kwargs)
        return cast("JobResult[P, R]", result)

    if TYPE_CHECKING:

        def get_result(self, result_id: str) -> JobResult[P, R]: ...
        async def aget_result(self, result_id: str) -> JobResult[P, R]: ...

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
        """Return what the backend can take: only ours measures a span by itself."""
        if self.run_in is None or _is_ours(self.get_backend()):
            return self
        return replace(self, run_after=timezone.now() + self.run_in, run_in=None)


def _cure(name: str) -> str:
    """Tell where an option belongs that using() does not take, or which one is meant."""
    ours = OTHER_OPTIONS.get(name, name)
    if ours not in PER_CALL and ours != "run_in" and ours in JobTask.__dataclass_fields__:
        return f" Say it where the task is declared: @task({ours}=…)."
    return did_you_mean(ours, PER_CALL)


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
