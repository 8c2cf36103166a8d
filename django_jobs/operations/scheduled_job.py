"""What an entry of cron enqueues: its task, as the entry wants it, and the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_jobs.compat import task_backends
from django_jobs.conf import InvalidOption, Options
from django_jobs.conf.cron import CronEntry
from django_jobs.operations.enqueue import Enqueued, NewJob
from django_jobs.tasks import AnyTask, resolve


class ScheduleFault(Exception):
    """Why nothing can be enqueued for an entry; the message says the cure."""


def scheduled_job(entry: CronEntry, *, backend: str) -> tuple[AnyTask, NewJob]:
    """Return the task of an entry and its next job, checked as an enqueue checks it.

    Raise ``ScheduleFault`` for whatever is wrong, errors in the site's own code included:
    one entry must not stop the others.
    """
    try:
        task = _task(entry, backend)
        owner: Any = task_backends[backend]
        new: NewJob = owner.new_job(task, entry.args, entry.kwargs)
    except Exception as error:  # the task's module and the functions of its keys are the site's
        raise ScheduleFault(f"{error}" or type(error).__name__) from error
    if new.parents or new.run_after is not None:
        raise ScheduleFault(
            f"{entry.task} has a fixed {'depends_on' if new.parents else 'run_after'}, which "
            "would be the same for every occurrence. Take it out of the task."
        )
    return task, new


def schedule_faults(options: Options) -> Iterator[str]:
    """Yield, for each entry for which nothing could be enqueued, which and why."""
    try:
        entries = options.cron
    except InvalidOption:  # told with the other options
        return
    for name, entry in entries.items():
        try:
            scheduled_job(entry, backend=options.alias)
        except ScheduleFault as fault:
            yield f"{options.where('cron')}[{name!r}] cannot be fired: {fault}"


def _task(entry: CronEntry, backend: str) -> AnyTask:
    said: dict[str, Any] = {"backend": backend}
    if entry.queue is not None:
        said["queue_name"] = entry.queue
    if entry.priority is not None:
        said["priority"] = entry.priority
    return resolve(entry.task).using(**said)


def announce(task: AnyTask, new: NewJob, made: Enqueued, *, backend: str) -> None:
    """Send ``task_enqueued`` for a job that has been committed."""
    owner: Any = task_backends[backend]
    owner.announce(task, new, made)
