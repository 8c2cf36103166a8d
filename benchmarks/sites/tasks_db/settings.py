"""Settings of the measured project."""

from __future__ import annotations

import os
from typing import Any

import django
from psycopg.conninfo import conninfo_to_dict

SECRET_KEY = "only for measurements"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "django_tasks_db",
]

_info = conninfo_to_dict(os.environ["BENCH_DATABASE"])
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _info["dbname"],
        "USER": _info["user"],
        "HOST": _info["host"],
        "PORT": _info["port"],
        "CONN_MAX_AGE": None if os.environ["BENCH_PERSISTENT"] == "1" else 0,
        "OPTIONS": {
            "application_name": "tasks_db",
            "server_side_binding": os.environ["BENCH_SERVER_BINDING"] == "1",
        },
    },
}
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
