"""System checks of the app itself; those of a backend alias are its own ``check``."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, register

from django_jobs.compat import TASKS_APP


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
