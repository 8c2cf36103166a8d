"""The test project's settings, with the side table and more queues."""

from __future__ import annotations

import os

from testproject.settings import *  # noqa: F403 - the settings are extended
from testproject.settings import DATABASES, INSTALLED_APPS, TASKS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.ledger"]
TASKS = {
    **TASKS,
    "default": {
        **TASKS["default"],
        "QUEUES": ["default", "imports", "photos", "mail", "a", "b", "c"],
    },
}

# Runs of the suite beside each other, on one server, each have a database of their own.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    name = f"test_{DATABASES['default']['NAME']}_{worker}"
    DATABASES["default"]["TEST"] = {"NAME": name}
