"""Notes every signal of Django's Tasks framework as it is sent."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from django_jobs.compat import TaskResultStatus, task_enqueued, task_finished, task_started
from django_jobs.tasks import AnyResult

SIGNALS = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
NAMES = {id(signal): name for name, signal in SIGNALS.items()}


@dataclass(frozen=True, slots=True)
class Sent:
    """One signal, and what its result said at that moment."""

    name: str
    sender: Any
    job: str
    status: TaskResultStatus
    errors: int
    thread: int


class Recorder:
    """Listens while its block lasts; results change later, so their state is taken down."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.sent: list[Sent] = []

    def __enter__(self) -> Self:
        for signal in SIGNALS.values():
            signal.connect(self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for signal in SIGNALS.values():
            signal.disconnect(self._note)

    def of(self, job: str) -> list[Sent]:
        """Return the signals of one job in the order in which they came."""
        return [one for one in self.sent if one.job == job]

    def finished(self, job: str) -> bool:
        """Tell whether the last signal of a job has come."""
        return any(one.name == "finished" for one in self.of(job))

    def _note(self, *, sender: Any, signal: Any, task_result: AnyResult, **_: Any) -> None:
        errors = len(task_result.errors)
        status, thread = task_result.status, threading.get_ident()
        one = Sent(NAMES[id(signal)], sender, task_result.id, status, errors, thread)
        self.sent.append(one)
