"""Which task is atomic, and where it can run."""

from __future__ import annotations

from django.core.exceptions import AppRegistryNotReady
from django.db import DEFAULT_DB_ALIAS

from django_jobs.conf import InvalidOption, Options
from django_jobs.tasks.result import AnyTask


def is_atomic(task: AnyTask) -> bool:
    """Tell whether a run commits together with its outcome; a task that is not ours does not."""
    return bool(getattr(task, "atomic", False))


def misplaced(options: Options) -> str | None:
    """Return why the writes of a task and its outcome cannot commit together here.

    Options that are wrong are told by the check, not here. A task that is declared before the
    models are there is looked at when it is enqueued.
    """
    try:
        alias = options.database
    except (InvalidOption, AppRegistryNotReady):
        return None
    if alias == DEFAULT_DB_ALIAS:
        return None
    return (
        f"atomic=True needs the jobs in the database {DEFAULT_DB_ALIAS!r}, for two databases do "
        f"not commit together, and TASKS[{options.alias!r}] keeps its jobs in {alias!r}. Set "
        f"OPTIONS['database'] to {DEFAULT_DB_ALIAS!r}, or declare the task without atomic=True."
    )
