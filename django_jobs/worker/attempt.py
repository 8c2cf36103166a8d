"""One attempt of a plain function, in the calling thread, from the call to its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django_jobs import tracing
from django_jobs.conf import Options
from django_jobs.exceptions import JobInterrupted
from django_jobs.tasks import AnyTask
from django_jobs.tasks.atomic import is_atomic
from django_jobs.worker.atomic import in_transaction
from django_jobs.worker.interrupt import open_locks_of_logging
from django_jobs.worker.perform import call, judge
from django_jobs.worker.run import Run


def attempt(
    run: Run, task: AnyTask, *, worker: UUID, options: Options, is_lost: Callable[[Run], bool]
) -> None:
    """Call the task and set the run's outcome; only a fault of ours is raised."""

    def body() -> tuple[Any, BaseException | None]:
        return called(run, lambda: call(run, task, is_lost=is_lost))

    if is_atomic(task):
        value, error = in_transaction(run, body, worker=worker, options=options)
        if run.outcome is not None:  # which has been committed
            tracing.end(run.span, None)
            return
    else:
        value, error = body()
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
    if run.interrupt.was_sent:
        open_locks_of_logging()
    return value, error
