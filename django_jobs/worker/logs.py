"""What a worker prints when the site has not said where logs go."""

from __future__ import annotations

import logging

from django.conf import settings

from django_jobs.compat import TASKS_APP

LEVELS = {0: logging.WARNING, 1: logging.INFO}


def log_to_stderr(*, verbosity: int) -> None:
    """Send our lines to standard error unless a handler is configured; spare the root logger.

    The line of a failed job is Django's own, written by its receiver of ``task_finished``;
    without LOGGING and with DEBUG off Django prints it nowhere, so it goes with ours.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
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
