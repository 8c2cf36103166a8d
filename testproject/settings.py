"""Settings of the test project. Importing them starts nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import django

from testproject import postgres

BASE_DIR = Path(__file__).resolve().parent.parent
VAR = BASE_DIR / "var"  # all that a run writes, kept out of git

SECRET_KEY = "only for this demonstration, on this machine"  # noqa: S105
DEBUG = os.environ.get("DEBUG", "0") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "testproject.urls"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "django_jobs",
    "testproject.shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# "other" is a second connection to the same database: two of them can race in one thread.
try:
    DATABASES: dict[str, dict[str, Any]] = {
        "default": postgres.database(),
        "other": {**postgres.database(), "TEST": {"MIRROR": "default"}},
    }
except postgres.ServerError as error:  # one sentence, whichever program reads the settings
    sys.exit(str(error))

TASKS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django_jobs.backend.JobsBackend",
        "QUEUES": ["default", "imports", "photos", "mail"],
        "OPTIONS": {
            "max_in_flight": 6,
            "queues": {
                "imports": {"weight": 3},  # thousands of short jobs
                "photos": {"slots": 2},  # each keeps a core busy
                "mail": {"slots": 4},
            },
        },
    },
}

STATIC_URL = "static/"
STATIC_ROOT = VAR / "static"
MEDIA_URL = "media/"
MEDIA_ROOT = VAR / "media"
_MAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": _MAIL_BACKEND, "OPTIONS": {"file_path": VAR / "mail"}}}
else:
    EMAIL_BACKEND = _MAIL_BACKEND
    EMAIL_FILE_PATH = VAR / "mail"
DEFAULT_FROM_EMAIL = "shop@example.com"
