"""Send signals so that neither a receiver nor the log of its error does harm."""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger("django_jobs")


def send(signal: Signal, *, sender: type, task_result: Any) -> None:
    """Tell all receivers; Django logs one that raises, and that log may raise as well."""
    try:
        signal.send_robust(sender=sender, task_result=task_result)
    except Exception:
        logger.exception("a signal did not reach all receivers")
