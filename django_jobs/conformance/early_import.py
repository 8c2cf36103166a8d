"""Imports a backend, and declares a task for it, before Django's apps are ready."""

from __future__ import annotations

import os
import subprocess
import sys

from django_jobs.compat import TASKS_APP

SCRIPT = """
from django.conf import settings
settings.configure(
    TASKS={{"default": {{"BACKEND": "{backend}", "QUEUES": [], "OPTIONS": {{}}}}}},
    DATABASES={{"default": {{"ENGINE": "django.db.backends.postgresql"}}}},
)
from {tasks_app} import task, task_backends
@task
def hello(): pass
from django.apps import apps
assert not apps.ready
print(type(task_backends["default"]).__name__)
"""


def import_early(backend: str) -> str:
    """Return what a process says that does it: the name of the backend's class, or an error."""
    script = SCRIPT.format(backend=backend, tasks_app=TASKS_APP)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(  # noqa: S603 - the script is the one above
        [sys.executable, "-c", script],
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return ran.stdout.strip()
