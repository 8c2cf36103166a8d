"""What is known of a job, as Django's TaskResult with our finer state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from django_jobs.compat import (
    TASK_REFRESH_ATTRS,
    Task,
    TaskContext,
    TaskResult,
    TaskResultStatus,
)
from django_jobs.states import JobState

if TYPE_CHECKING:  # generic in the type stubs alone
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
    Base = TaskResult
    AnyTask: TypeAlias = Task[..., Any]
    AnyResult: TypeAlias = TaskResult[..., Any]
    AnyContext: TypeAlias = TaskContext[..., Any]
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
    AnyTask, AnyResult, AnyContext = Task, TaskResult, TaskContext

    class Base(TaskResult, Generic[P, R]):
        """Django's TaskResult, generic also where it is not."""

        __slots__ = ()


STATUS = {  # Django has four; what has not begun is READY, what did not succeed FAILED
    JobState.WAITING: TaskResultStatus.READY,
    JobState.SCHEDULED: TaskResultStatus.READY,
    JobState.READY: TaskResultStatus.READY,
    JobState.BLOCKED: TaskResultStatus.READY,
    JobState.RUNNING: TaskResultStatus.RUNNING,
    JobState.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    JobState.DEAD: TaskResultStatus.FAILED,
    JobState.DROPPED: TaskResultStatus.FAILED,
    JobState.CANCELLED: TaskResultStatus.FAILED,
    JobState.EXPIRED: TaskResultStatus.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult(Base[P, R]):  # type: ignore[misc] # Django's own is frozen, its stub is not
    """Django's TaskResult, the job's finer ``state`` and its ``metadata``."""

    state: JobState
    metadata: dict[str, Any] = field(default_factory=dict)
    created: bool = True  # False: its enqueue found this live job of the same unique key

    def __post_init__(self) -> None:
        """Leave the arguments alone: they come out of JSON."""

    def refresh(self) -> None:
        """Read the job again."""
        self._take(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """Read the job again."""
        self._take(await self.task.get_backend().aget_result(self.id))

    def _take(self, newer: AnyResult) -> None:
        for name in (*TASK_REFRESH_ATTRS, "state", "metadata"):
            object.__setattr__(self, name, getattr(newer, name))
