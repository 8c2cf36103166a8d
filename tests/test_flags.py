"""What the flags of jobworker refuse, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command

from django_jobs.worker.flags import UsageError, build
from tests.aliases import BACKEND, DJANGOS

NONE: dict[str, Any] = {
    "backend": "default",
    "queue": None,
    "max_in_flight": None,
    "lease": None,
    "drain_timeout": None,
    "no_listen": False,
    "name": None,
    "once": False,
    "max_jobs": None,
}


def refused(**given: Any) -> str:
    """Return what is said of flags that cannot be used."""
    with pytest.raises(UsageError) as error:
        build({**NONE, **given})
    return str(error.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_jobs": "0"}, "--max-jobs is 0. Set it to a whole number of at least 1."),
        ({"max_jobs": "ten"}, "--max-jobs is 'ten'. Set it to a whole number of at least 1."),
        ({"max_jobs": "1.5"}, "--max-jobs is 1.5. Set it to a whole number of at least 1."),
        (
            {"max_in_flight": "0"},
            "--max-in-flight is 0. Set it to a whole number from 1 to 1,000.",
        ),
        ({"queue": ["a:0"]}, "--queue 'a:0': the weight must be a whole number from 1 to 1,000."),
        ({"queue": ["a:"]}, "--queue 'a:': the weight must be a whole number from 1 to 1,000."),
        (
            {"queue": ["mial"]},
            (
                "--queue 'mial' is not in TASKS['default']['QUEUES'] (default, imports, photos, "
                "mail, a, b, c). Did you mean 'mail'?"
            ),
        ),
        ({"name": ""}, "--name is ''. Set it to printable text, or leave it out."),
        ({"name": " "}, "--name is ' '. Set it to printable text, or leave it out."),
        ({"name": "a\x00"}, "--name is 'a\\x00'. Set it to printable text, or leave it out."),
        ({"name": "x" * 300}, "--name has 300 characters. Set it to at most 100."),
        ({"backend": "defualt"}, "TASKS has no alias 'defualt'. Did you mean 'default'?"),
        ({"backend": "x"}, "TASKS has no alias 'x'. Add it, or use one of these: default."),
    ],
    ids=lambda value: next(iter(value.items())) if isinstance(value, dict) else "",
)
def test_a_flag_that_cannot_be_used_is_told_with_the_cure(given, words):
    assert words == refused(**given)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"BACKEND": "django_jobs.JobsBackend"},
            (
                "TASKS['default']['BACKEND'] is 'django_jobs.JobsBackend', which cannot be "
                'imported: Module "django_jobs" does not define a "JobsBackend" attribute/class. '
                f"Set it to '{BACKEND}'."
            ),
        ),
        (
            {"BACKEND": "nowhere.Backend"},
            (
                "TASKS['default']['BACKEND'] is 'nowhere.Backend', which cannot be imported: "
                "No module named 'nowhere'."
            ),
        ),
        ({}, f"TASKS['default'] has no 'BACKEND'. Set it to '{BACKEND}'."),
        (
            {"BACKEND": f"{DJANGOS}.dummy.DummyBackend"},
            (
                "TASKS['default']['BACKEND'] is DummyBackend, which needs no jobworker. "
                f"Set it to '{BACKEND}'."
            ),
        ),
    ],
    ids=["ours", "nowhere", "none", "dummy"],
)
def test_the_fault_is_looked_for_where_it_is(settings, params, words):
    settings.TASKS = {"default": params}
    assert words == refused()


def test_right_flags_make_a_worker():
    worker = build({**NONE, "name": "web-1", "max_jobs": "3", "queue": ["mail:2"]})
    assert ("web-1", 2) == (worker.name, worker.options.weight("mail"))


def test_a_missing_backport_ends_the_command(monkeypatch, settings, capsys):
    monkeypatch.setattr("django_jobs.checks.TASKS_APP", "django_tasks")
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_tasks"]
    with pytest.raises(SystemExit) as ended:
        call_command("jobworker")
    assert 2 == ended.value.code
    assert "jobworker: 'django_tasks' is not in INSTALLED_APPS. Add" in capsys.readouterr().err
