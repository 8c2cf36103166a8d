"""What is wrong with an alias of ``TASKS``, or with a queue, that somebody named."""

from __future__ import annotations

from collections.abc import Iterable

from django_jobs.compat import InvalidTaskBackend, task_backends
from django_jobs.conf.options import Options
from django_jobs.conf.values import did_you_mean, shown

BACKEND = "django_jobs.backend.JobsBackend"
LISTED = 10  # names in a message


def backend_fault(alias: object) -> str | None:
    """Tell why ``TASKS`` leads to no backend under ``alias``, and the cure; None: it does."""
    known = task_backends.settings
    if not isinstance(alias, str) or alias not in known:
        cure = did_you_mean(alias, known) or f" Add it, or use one of these: {_listed(known)}."
        return f"TASKS has no alias {shown(alias)}.{cure}"
    if "BACKEND" not in known[alias]:
        return f"TASKS[{alias!r}] has no 'BACKEND'. Set it to {BACKEND!r}."
    try:
        task_backends[alias]
    except InvalidTaskBackend as error:
        path = known[alias]["BACKEND"]
        cure = f" Set it to {BACKEND!r}." if str(path).startswith("django_jobs") else ""
        why = str(error.__cause__ or error).rstrip(".")
        return f"TASKS[{alias!r}]['BACKEND'] is {path!r}, which cannot be imported: {why}.{cure}"
    return None


def queue_fault(name: object, options: Options) -> str | None:
    """Tell why ``name`` is no queue of the alias, as what follows the name; None: it is one."""
    names = options.queue_names
    if not names or name in names:
        return None
    where = f"TASKS[{options.alias!r}]['QUEUES']"
    is_set = "QUEUES" in options.params
    listed = _listed(names) if is_set else f"QUEUES is not set, so it is {names}"
    cure = did_you_mean(name, names) or " Add it there, or use one of these."
    return f"is not in {where} ({listed}).{cure}"


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")
