"""Say that jobs have ended, to the receivers of ``task_finished``."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django_jobs import logs
from django_jobs.compat import TaskError, TaskResultStatus, task_backends, task_finished
from django_jobs.operations.results import results
from django_jobs.signals import send
from django_jobs.tasks import JobResult


class Told(Exception):
    """Raised so that receivers find the stored traceback in sys.exc_info()."""


def told(errors: Sequence[TaskError], state: str) -> Told:
    """Return an exception of the last error's name that says its stored traceback."""
    if not errors:
        return Told(f"the job was {state}")
    module, _, name = errors[-1].exception_class_path.rpartition(".")
    kind: type[Told] = type(name or "Told", (Told,), {"__module__": module or "builtins"})
    return kind(errors[-1].traceback)


def send_finished(result: JobResult, *, sender: type) -> None:
    """Send task_finished for one job; a receiver that raises is logged."""
    with logs.about(_named(result)):
        _send_finished(result, sender)


def _named(result: JobResult) -> logs.About:
    task = result.task
    return logs.About(int(result.id), task.module_path, task.queue_name, result.attempts)


def _send_finished(result: JobResult, sender: type) -> None:
    if result.status != TaskResultStatus.FAILED:
        send(task_finished, sender=sender, task_result=result)
        return
    try:
        raise told(result.errors, result.state)
    except Told as error:
        error.__traceback__ = None  # of this very line; the task's own is what it says
        send(task_finished, sender=sender, task_result=result)


def announce(ids: Collection[int], *, backend: str, database: str) -> None:
    """Send task_finished for jobs that have ended here, and not in a worker."""
    if backend not in task_backends:  # these settings do not have the alias
        return
    sender = type(task_backends[backend])
    for result in results(ids, backend=backend, database=database).values():
        send_finished(result, sender=sender)
