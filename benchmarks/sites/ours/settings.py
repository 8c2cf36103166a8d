"""Settings of the measured project; QUEUES and OPTIONS come from the environment."""

from __future__ import annotations

import json
import os
from typing import Any

import django
from psycopg.conninfo import conninfo_to_dict

SECRET_KEY = "only for measurements"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "django_jobs",
    "benchmarks.sites.ours",
]

_info = conninfo_to_dict(os.environ["BENCH_DATABASE"])
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _info["dbname"],
        "USER": _info["user"],
        "HOST": _info["host"],
        "PORT": _info["port"],
    },
}
TASKS = {
    "default": {
        "BACKEND": "django_jobs.backend.JobsBackend",
        "QUEUES": json.loads(os.environ.get("BENCH_QUEUES", '["default"]')),
        "OPTIONS": json.loads(os.environ.get("BENCH_OPTIONS", "{}")),
    },
}
