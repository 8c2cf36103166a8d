"""One attempt of a plain function, in the calling thread, from the call to its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django_jobs.conf import Options
from django_jobs.exceptions import JobInterrupted
from django_jobs.tasks import AnyTask
from django_jobs.worker.perform import call, judge
from django_jobs.worker.run import Run


def attempt(
    run: Run, task: AnyTask, *, worker: UUID, options: Options, is_lost: Callable[[Run], bool]
) -> None:
    """Call the task and set the run's outcome; only a fault of ours is raised."""
    value, error = called(run, lambda: call(run, task, is_lost=is_lost))
    judge(run, task, value, error, options=options)


def called(run: Run, body: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return what ``body`` returns, or raises; it can be interrupted for as long as it lasts."""
    value: Any = None
    error: BaseException | None = None
    returned = False
    try:
        try:
            run.interrupt.open()
            value = body()
            returned = True
        except BaseException as raised:  # noqa: BLE001 - whatever a task raises is a failure
            error = raised
        run.interrupt.shut()
    except JobInterrupted as late:  # it is sent once: nothing comes after it
        if not returned and error is None:
            error = late
    return value, error
