"""What a running task may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django_jobs.tasks.result import AnyContext, JobResult


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(AnyContext):  # type: ignore[misc]  # frozen as Django's own is
    """Django's task context, and whether the run shall go on."""

    is_lost: Callable[[], bool]
    is_cancelled: Callable[[], bool]

    @property
    def lease_lost(self) -> bool:
        """True when another worker may run this job: stop, nothing written counts."""
        return self.is_lost()

    @property
    def cancelled(self) -> bool:
        """True when somebody has cancelled this job: end as soon as it is convenient."""
        return self.is_cancelled()

    @property
    def metadata(self) -> dict[str, Any]:
        """What was given as metadata at the enqueue."""
        result = self.task_result
        return result.metadata if isinstance(result, JobResult) else {}
