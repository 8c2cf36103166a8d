"""The test project's settings, with the side table and more queues."""

from __future__ import annotations

from testproject.settings import *  # noqa: F403 - the settings are extended
from testproject.settings import INSTALLED_APPS, TASKS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.ledger"]
TASKS = {
    **TASKS,
    "default": {
        **TASKS["default"],
        "QUEUES": ["default", "imports", "photos", "mail", "a", "b", "c"],
    },
}
