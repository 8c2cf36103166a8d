"""The tasks that are measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import django

_tasks = import_module("django.tasks" if django.VERSION >= (6, 0) else "django_tasks")
task: Callable[[Callable[[], Any]], Any] = _tasks.task


@task
def noop() -> None:
    """Do nothing."""


@task
def clock() -> float:
    """Say when user code began."""
    return time.time()
