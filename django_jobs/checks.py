"""System checks of the app itself; those of a backend alias are its own ``check``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning

from django_jobs.compat import TASKS_APP, task_backends
from django_jobs.conf import InvalidOption, Options


@register
def check_tasks_app(**kwargs: Any) -> list[CheckMessage]:
    """Say when the backport is not installed, for then nothing checks the backends."""
    if TASKS_APP == "django.tasks" or apps.is_installed(TASKS_APP):
        return []
    return [
        Error(
            f"{TASKS_APP!r} is not in INSTALLED_APPS.",
            hint=f"Add {TASKS_APP!r}: on this version of Django it is the Tasks framework, and "
            "without it TASKS is not checked.",
            id="django_jobs.E011",
        ),
    ]


@register(Tags.database)
def check_storage(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Say what keeps a database with jobs from being cleaned, and which indexes are broken."""
    from django_jobs.operations.doctor import Exam, storage_findings

    backends: dict[str, str] = {}
    for backend in task_backends.all():
        if getattr(backend, "is_of_django_jobs", False):
            with suppress(InvalidOption):  # told by the check of the backend
                backends.setdefault(Options(backend.alias).database, backend.alias)
    return [
        CheckWarning(finding.sentence, hint=finding.cure, id=f"django_jobs.{code}")
        for database, alias in sorted(backends.items())
        if database in (databases or ())
        for code, finding in storage_findings(Exam(alias, database))
    ]
