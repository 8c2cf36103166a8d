"""What a running task may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django_jobs.compat import TaskContext


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(TaskContext):
    """Django's task context, and whether the run still holds its lease."""

    is_lost: Callable[[], bool]

    @property
    def lease_lost(self) -> bool:
        """True when another worker may run this job: stop, nothing written counts."""
        return self.is_lost()

    @property
    def metadata(self) -> dict[str, object]:
        """What was given as metadata at the enqueue."""
        metadata: dict[str, object] = self.task_result.metadata
        return metadata
