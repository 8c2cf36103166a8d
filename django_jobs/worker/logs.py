"""What a worker prints when the site has not said where logs go."""

from __future__ import annotations

import logging

from django.conf import settings

from django_jobs.compat import TASKS_APP

LEVELS = {0: logging.WARNING, 1: logging.INFO}

_said: list[int] = []


def verbosity() -> int | None:
    """Return how much this process says; None: as the site's own configuration has it."""
    return _said[-1] if _said else None


def log_to_stderr(*, verbosity: int, pid: bool) -> None:
    """Send our lines to standard error unless a handler is configured; spare the root logger.

    The line of a failed job is Django's own, written by its receiver of ``task_finished``;
    without LOGGING and with DEBUG off Django prints it nowhere, so it goes with ours.
    ``pid``: several processes write to it.
    """
    _said.append(verbosity)
    handler = logging.StreamHandler()
    who = "%(process)d " if pid else ""
    handler.setFormatter(logging.Formatter(f"%(asctime)s {who}%(levelname)s %(message)s"))
    level = LEVELS.get(verbosity, logging.DEBUG)
    ours = logging.getLogger("django_jobs")
    if not ours.hasHandlers():
        ours.addHandler(handler)
        if ours.level == logging.NOTSET:
            ours.setLevel(level)
    if not settings.LOGGING and not settings.DEBUG and not logging.getLogger().handlers:
        failures = logging.StreamHandler()
        failures.setFormatter(handler.formatter)
        failures.setLevel(logging.WARNING)
        logging.getLogger(TASKS_APP).addHandler(failures)
