"""The tasks that are measured."""

from __future__ import annotations

import time
from importlib import import_module

import django

task = import_module("django.tasks" if django.VERSION >= (6, 0) else "django_tasks").task


@task
def noop() -> None:
    """Do nothing."""


@task
def clock() -> float:
    """Say when user code began."""
    return time.time()
