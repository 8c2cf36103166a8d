"""What the flags of jobworker refuse, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command

from django_jobs import Requires
from django_jobs.conf import Options
from django_jobs.worker.flags import UsageError, build
from tests.aliases import BACKEND, DJANGOS, put_options

NONE: dict[str, Any] = {
    "backend": "default",
    "queue": None,
    "max_in_flight": None,
    "lease": None,
    "drain_timeout": None,
    "timeout": None,
    "no_cron": False,
    "no_listen": False,
    "name": None,
    "label": None,
    "resource": None,
    "once": False,
    "max_jobs": None,
}


HOST_RULE = "the name of a host is printable text of 1 to 100 characters without spaces."
LABEL_RULE = (
    "a label is 1 to 100 characters of letters, digits and '_ - . : / +', and begins with a "
    "letter or digit."
)
RESOURCE_RULE = (
    "the name of a resource is 1 to 50 characters of letters, digits and '_', and begins with a "
    "letter."
)
NO_AMOUNTS = ("-1", "0", "abc", "", "nan", "inf", "1e400", "\u0663", "1_000", "1=2", "0x10", "8,5")


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
        (
            {"timeout": "0"},
            (
                "--timeout is 0. Set it to a number of seconds from 0.1 to 2,592,000, or leave it "
                "out for none."
            ),
        ),
        (
            {"timeout": "1m"},
            "--timeout is '1m'. Set it to a number of seconds, or leave it out for none.",
        ),
        (
            {"timeout": "nan"},
            (
                "--timeout is nan. Set it to a number of seconds from 0.1 to 2,592,000, or leave "
                "it out for none."
            ),
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
        ({"name": ""}, f"--name is ''. Change it: {HOST_RULE}"),
        ({"name": "web 1"}, f"--name is 'web 1'. Change it: {HOST_RULE}"),
        ({"name": "a\x00"}, f"--name is 'a\\x00'. Change it: {HOST_RULE}"),
        ({"name": "x" * 300}, f"--name is '{'x' * 119}. Cut it, it has 300: {HOST_RULE}"),
        ({"label": ["a b"]}, f"--label is 'a b'. Change 'a b': {LABEL_RULE}"),
        ({"label": [""]}, f"--label is ''. Change '': {LABEL_RULE}"),
        ({"label": ["gpu", "a,b"]}, f"--label is 'a,b'. Change 'a,b': {LABEL_RULE}"),
        ({"label": ["gpu\n"]}, f"--label is 'gpu\\n'. Change 'gpu\\n': {LABEL_RULE}"),
        (
            {"label": ["cpus=2"]},
            (
                f"--label is 'cpus=2'. Change 'cpus=2': {LABEL_RULE} An amount is a resource: "
                "say --resource cpus=2."
            ),
        ),
        (
            {"resource": ["memory_mb"]},
            (
                "--resource is 'memory_mb'. Set it to NAME=AMOUNT, such as memory_mb=8000. For a "
                "label say --label memory_mb."
            ),
        ),
        ({"resource": [""]}, "--resource is ''. Set it to NAME=AMOUNT, such as memory_mb=8000."),
        (
            {"resource": ["os:linux=1"]},
            (
                f"--resource is 'os:linux=1'. Change 'os:linux': {RESOURCE_RULE} For a label say "
                "--label os:linux."
            ),
        ),
        ({"resource": ["=1"]}, f"--resource is '=1'. Change '': {RESOURCE_RULE}"),
        ({"resource": ["a b=1"]}, f"--resource is 'a b=1'. Change 'a b': {RESOURCE_RULE}"),
        (
            {"resource": ["cpus=1", "cpus=1.5"]},
            "--resource cpus is given as 1 and 1.5. Take one of them out.",
        ),
        *(
            (
                {"resource": [f"memory_mb={amount}"]},
                (
                    f"--resource is {f'memory_mb={amount}'!r}. Set 'memory_mb' to a number from "
                    "0.001 to 1e15."
                ),
            )
            for amount in NO_AMOUNTS
        ),
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


def test_the_timeout_of_a_flag_goes_before_that_of_the_settings(settings):
    put_options(settings, {"timeout_seconds": 60})
    assert (0.5, 60.0) == (built(timeout="0.5").timeout_seconds, built().timeout_seconds)


def test_right_flags_make_a_worker():
    worker = build({**NONE, "name": "web-1", "max_jobs": "3", "queue": ["mail:2"]})
    assert ("web-1", 2) == (worker.name, worker.options.weight("mail"))


def built(**given: Any) -> Options:
    return build({**NONE, **given}).options


def test_labels_are_added_to_those_of_the_settings(settings):
    put_options(settings, {"labels": {"gpu"}})
    assert {"gpu"} == built().labels
    assert {"gpu", "fast", "os:plan9"} == built(label=["fast", "fast", "os:plan9"]).labels


def test_a_resource_goes_before_that_of_the_settings(settings):
    put_options(settings, {"resources": {"memory_mb": 8000, "cpus": 2}})
    assert {"memory_mb": 8000, "cpus": 2} == built().resources
    given = ["memory_mb=500", "seats=1.5", "seats=1.50"]
    assert {"memory_mb": 500, "cpus": 2, "seats": 1.5} == built(resource=given).resources


@pytest.mark.parametrize(("name", "flag"), [("labels", "label"), ("resources", "resource")])
def test_a_flag_does_not_hide_what_is_wrong_with_the_setting(settings, name, flag):
    put_options(settings, {name: 3})
    assert f"TASKS['default']['OPTIONS']['{name}'] is 3." in refused(**{flag: ["a=1"]})


@pytest.mark.parametrize("name", ["web-1", "web-1.example:4", "ä", "x" * 100])
def test_a_name_is_one_that_a_job_can_require(name):
    assert name == build({**NONE, "name": name}).name == Requires(host=name).host


@pytest.mark.parametrize("flags", [["--label", "a b"], ["--resource", "memory_mb=nan"]])
def test_an_offer_that_cannot_be_written_ends_the_command(flags, capsys):
    with pytest.raises(SystemExit) as ended:
        call_command("jobworker", *flags)
    assert 2 == ended.value.code
    assert f"jobworker: {flags[0]} is {flags[1]!r}. " in capsys.readouterr().err


def test_a_number_of_thousands_of_digits_is_refused_as_any_other():
    assert "Set it to a whole number" in refused(max_in_flight="9" * 5000)
    assert "Set 'cpus' to a number" in refused(resource=["cpus=" + "9" * 5000])


def test_a_missing_backport_ends_the_command(monkeypatch, settings, capsys):
    monkeypatch.setattr("django_jobs.checks.TASKS_APP", "django_tasks")
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_tasks"]
    with pytest.raises(SystemExit) as ended:
        call_command("jobworker")
    assert 2 == ended.value.code
    assert "jobworker: 'django_tasks' is not in INSTALLED_APPS. Add" in capsys.readouterr().err
