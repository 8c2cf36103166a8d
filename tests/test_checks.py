"""What the system checks find, and how it reaches whoever starts the site."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
from django.core.checks import Error, run_checks

from django_jobs.checks import check_tasks_app
from django_jobs.compat import TASKS_APP, task_backends
from django_jobs.conf import problems
from tests.aliases import BACKEND, put_options


@pytest.fixture
def put(settings):
    """Set OPTIONS, and other keys, of the default alias."""
    return partial(put_options, settings)


def test_the_settings_of_the_test_project_are_sound():
    assert [] == list(problems("default"))


def test_djangos_own_check_calls_the_backends_and_says_each_thing_once(put):
    put({"max_in_flight": 0})
    found = [message for message in run_checks() if "max_in_flight" in message.msg]
    assert [("django_jobs.E003", "Set it to a whole number from 1 to 1,000.")] == [
        (message.id, message.hint) for message in found
    ]


@pytest.mark.parametrize(
    ("options", "code", "hint"),
    [
        ({"labels": "gpu"}, "E003", "Set it to a set of labels, such as {'gpu'}."),
        ({"resources": {"cpus": 0}}, "E003", "Set 'cpus' to a number from 0.001 to 1e15."),
        ({"label": {"gpu"}}, "E002", "Take it out. Did you mean 'labels'?"),
        (
            {"queues": {"default": {"requires": {"hosts": "a"}}}},
            "E002",
            "Take out 'hosts'. Did you mean 'host'?",
        ),
        (
            {"queues": {"default": {"requires": {"resources": {"cpus": "2"}}}}},
            "E003",
            "Set 'cpus' to a number from 0.001 to 1e15.",
        ),
        (
            {"unknown_task_seconds": 0},
            "E003",
            "Set it to a number of seconds from 1 to 2,592,000.",
        ),
    ],
    ids=["labels", "resources", "option", "key", "amount", "seconds"],
)
def test_what_cannot_be_offered_or_required_is_told(put, options, code, hint):
    put(options)
    assert [(f"django_jobs.{code}", hint)] == [
        (error.id, error.hint) for error in task_backends["default"].check()
    ]


def test_another_database_is_refused_with_the_reason(put, settings):
    settings.DATABASES["lite"] = {**settings.DATABASES["default"], "ENGINE": "x"}
    try:
        put({"database": "lite"})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("django_jobs.backend.connections", {"lite": Lite()})
            [error] = task_backends["default"].check()
    finally:
        del settings.DATABASES["lite"]
    assert isinstance(error, Error)
    assert "django_jobs.E001" == error.id
    assert "'lite', which is sqlite; claims rest on row locks" in error.msg


def test_a_database_that_is_not_there_is_told_once(put):
    put({"database": "nowhere"})
    assert ["django_jobs.E010"] == [error.id for error in task_backends["default"].check()]


class Lite:
    """A connection to SQLite, as far as the check looks."""

    vendor = "sqlite"


def test_an_app_that_is_not_installed_is_told(put, settings):
    put()
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_jobs"]
    assert ["django_jobs.E012"] == [error.id for error in task_backends["default"].check()]


def test_a_missing_backport_is_told(monkeypatch, settings):
    assert [] == check_tasks_app()
    monkeypatch.setattr("django_jobs.checks.TASKS_APP", "django_tasks")
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_tasks"]
    [error] = check_tasks_app()
    assert ("django_jobs.E011", "'django_tasks' is not in INSTALLED_APPS.") == (
        error.id,
        error.msg,
    )


WITHOUT_BACKPORT = """
import sys, django
django.VERSION = (5, 2, 0, "final", 0)
sys.modules["django_tasks"] = None
try:
    import django_jobs
except django.core.exceptions.ImproperlyConfigured as error:
    print(error)
"""


def test_without_the_backport_the_import_says_how_to_install_it():
    command = [sys.executable, "-c", f"import django.core.exceptions{WITHOUT_BACKPORT}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pip install 'django-tasks>=0.12'" in ran.stdout


SETTINGS = """
from django_jobs import Requires, constant
SECRET_KEY = "x"
INSTALLED_APPS = ["django_tasks"] if {backport} else []
INSTALLED_APPS += ["django.contrib.contenttypes", "django.contrib.auth", "django_jobs"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": "x"}}}}
TASKS = {{"default": {{"BACKEND": "{backend}", "OPTIONS": {{
    "backoff": constant(4), "queues": {{"default": {{"requires": Requires(host="web-1")}}}}
}}}}}}
"""


def test_what_settings_need_can_be_imported_in_the_settings(tmp_path):
    text = SETTINGS.format(backend=BACKEND, backport=TASKS_APP == "django_tasks")
    (tmp_path / "site_settings.py").write_text(text)
    code = "import django; django.setup(); from django_jobs.conf import Options; "
    code += "print(Options('default').backoff.base, Options('default').requires('default')); "
    code += "from django.core.checks import run_checks; print(run_checks())"
    environment = {"PYTHONPATH": f"{tmp_path}:.", "DJANGO_SETTINGS_MODULE": "site_settings"}
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ("4 host web-1\n[]\n", "") == (ran.stdout, ran.stderr)


def test_aliases_that_share_a_database_must_agree_on_the_lease(settings):
    second = {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"lease_seconds": 9}}
    settings.TASKS = {**settings.TASKS, "second": second}
    [error] = task_backends["second"].check()
    assert "django_jobs.E013" == error.id
    assert "(9.0, 3.0) and (30.0, 10.0)" in error.msg
    assert [] == task_backends["default"].check()


def test_aliases_that_agree_may_share_a_database(settings):
    settings.TASKS = {**settings.TASKS, "second": {"BACKEND": BACKEND, "QUEUES": []}}
    assert [] == task_backends["second"].check()
