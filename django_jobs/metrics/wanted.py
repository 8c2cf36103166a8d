"""Which databases hold jobs of this site, and which queues the settings name."""

from __future__ import annotations

from django_jobs.compat import InvalidTaskBackend, task_backends
from django_jobs.conf import InvalidOption, Options
from django_jobs.metrics.figures import Wanted
from django_jobs.tasks import JobTask


def wanted() -> dict[str, Wanted]:
    """Return what to ask, by the alias of the database."""
    found: dict[str, list[Options]] = {}
    for alias in filter(_is_ours, task_backends):
        options = Options(alias)
        try:
            found.setdefault(options.database, []).append(options)
        except InvalidOption:  # a system check tells it
            continue
    return {database: _wanted(several) for database, several in found.items()}


def _wanted(several: list[Options]) -> Wanted:
    queues = [(options.alias, name) for options in several for name in _names(options)]
    return Wanted(tuple(options.alias for options in several), tuple(queues))


def _names(options: Options) -> list[str]:
    try:
        return options.queue_names
    except InvalidOption:  # as above
        return []


def _is_ours(alias: str) -> bool:
    try:
        return issubclass(task_backends[alias].task_class, JobTask)
    except InvalidTaskBackend:  # another's fault, told by Django's own check
        return False
