"""Options: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from django.core.checks import Error, run_checks
from django.core.exceptions import ImproperlyConfigured

from django_jobs import constant, exponential
from django_jobs.checks import check_tasks_app
from django_jobs.compat import TASKS_APP, task_backends
from django_jobs.conf import (
    DEFAULT_SLOTS,
    OPTION_NAMES,
    InvalidOption,
    Options,
    Problem,
    did_you_mean,
    is_queue_name,
    problems,
)

BACKEND = "django_jobs.backend.JobsBackend"


@pytest.fixture
def put(settings):
    """Set OPTIONS, and other keys, of the default alias."""

    def put(options: Any = None, **params: Any) -> Options:
        settings.TASKS = {
            "default": {
                "BACKEND": BACKEND,
                "OPTIONS": {} if options is None else options,
                **params,
            }
        }
        return Options("default")

    return put


def faults() -> list[Problem]:
    return list(problems("default"))


def only_fault() -> Problem:
    [problem] = problems("default")
    return problem


# Defaults


def test_defaults_are_those_of_the_reference(put):
    options = put()
    expected = {
        "max_in_flight": 6,
        "queues": {},
        "lease_seconds": 30.0,
        "renew_seconds": 10.0,
        "drain_seconds": 25.0,
        "poll_floor_seconds": 0.05,
        "poll_ceiling_seconds": 10.0,
        "listen": True,
        "database": "default",
        "max_attempts": 3,
        "backoff": exponential(base=2, cap=600, jitter=0.25),
        "max_payload_bytes": 1024 * 1024,
        "max_result_bytes": 1024 * 1024,
        "max_error_chars": 32_768,
        "watchdog_seconds": 120.0,
    }
    assert expected == {name: getattr(options, name) for name in OPTION_NAMES}
    assert ["default"] == options.queue_names
    assert (DEFAULT_SLOTS, 8, 1) == (options.slots("default"), DEFAULT_SLOTS, options.weight("x"))
    assert [] == faults()


def test_an_alias_that_is_not_set_has_the_defaults(put):
    put()
    assert 6 == Options("nowhere").max_in_flight


def test_options_are_read_when_they_are_used(put):
    options = put({"max_in_flight": 2})
    assert 2 == options.max_in_flight
    put({"max_in_flight": 3})
    assert 3 == options.max_in_flight


def test_what_follows_from_the_lease_follows_it(put):
    options = put({"lease_seconds": 60})
    assert (20.0, 240.0) == (options.renew_seconds, options.watchdog_seconds)


# Single values

WHOLE = (
    "max_in_flight",
    "max_attempts",
    "max_payload_bytes",
    "max_result_bytes",
    "max_error_chars",
)
SECONDS = (
    "lease_seconds",
    "renew_seconds",
    "drain_seconds",
    "poll_floor_seconds",
    "poll_ceiling_seconds",
    "watchdog_seconds",
)
NO_NUMBERS: tuple[Any, ...] = (
    None,
    "6",
    "",
    True,
    False,
    [6],
    {},
    math.nan,
    math.inf,
    -math.inf,
    1j,
    -1,
)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, 6.0, 1.5, 10**12], ids=repr)
def test_a_whole_number_is_a_whole_number_within_its_bounds(put, name, value):
    options = put({name: value})
    with pytest.raises(InvalidOption, match="Set it to a whole number from 1 to") as refused:
        getattr(options, name)
    assert f"TASKS['default']['OPTIONS']['{name}'] is " in str(refused.value)
    assert "django_jobs.E003" == only_fault().id


@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize("value", [*NO_NUMBERS, 1e12], ids=repr)
def test_seconds_are_a_finite_number_within_their_bounds(put, name, value):
    options = put({name: value})
    with pytest.raises(InvalidOption, match="Set it to a number of seconds"):
        getattr(options, name)
    assert {"django_jobs.E003"} == {problem.id for problem in faults()}


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("max_in_flight", 1, 1000),
        ("max_attempts", 1, 1000),
        ("lease_seconds", 2, None),
        ("drain_seconds", 0, None),
        ("poll_floor_seconds", 0.01, 10),
        ("poll_ceiling_seconds", None, 10),
    ],
)
def test_the_bounds_belong_to_the_values(put, name, least, most):
    for value in (least, most):
        if value is not None:
            assert value == getattr(put({name: value}), name)
            assert [] == faults()
    step = 1 if isinstance(least, int) and most == 1000 else 0.001
    for value in (least and least - step, most and most + step):
        if value:
            put({name: value})
            assert "django_jobs.E003" in {problem.id for problem in faults()}


def test_backoff_is_one_of_ours(put):
    assert constant(3) == put({"backoff": constant(3)}).backoff
    for bad in ("exponential", 3, {"kind": "linear"}, exponential):
        put({"backoff": bad})
        assert "imported from django_jobs" in only_fault().hint


@pytest.mark.parametrize("value", [True, False, "other"])
def test_listen_is_a_switch_or_an_alias(put, value):
    assert value is put({"listen": value}).listen or value == put({"listen": value}).listen
    assert [] == faults()


@pytest.mark.parametrize("name", ["listen", "database"])
@pytest.mark.parametrize("value", ["nowhere", 1, 0, [], "__class__"], ids=repr)
def test_an_alias_is_one_of_databases(put, name, value):
    put({name: value})
    assert ("django_jobs.E010", True) == (only_fault().id, "DATABASES" in only_fault().hint)


def test_the_router_says_which_database_unless_an_option_does(put, settings):
    settings.DATABASE_ROUTERS = [OtherRouter()]
    assert "other" == put().database
    assert "default" == put({"database": "default"}).database


class OtherRouter:
    """Keeps jobs elsewhere."""

    def db_for_write(self, model, **hints):
        return "other" if model._meta.app_label == "django_jobs" else None


# Pairs


def test_a_lease_is_renewed_at_least_three_times(put):
    assert 10 == put({"renew_seconds": 10}).renew_seconds
    put({"renew_seconds": 10.1})
    assert "django_jobs.E004" == only_fault().id
    assert "at most a third of lease_seconds, which is 30" in only_fault().hint


@pytest.mark.parametrize("lease", [2, 2.5, 7, 10, 11.1, 30, 31, 100, 1000.7])
def test_a_third_of_any_lease_is_a_third(put, lease):
    assert lease / 3 == put({"lease_seconds": lease, "renew_seconds": lease / 3}).renew_seconds


def test_the_longest_wait_is_no_shorter_than_the_first(put):
    put({"poll_floor_seconds": 2, "poll_ceiling_seconds": 1})
    assert "django_jobs.E005" == only_fault().id
    assert "at least poll_floor_seconds, which is 2" in only_fault().hint


def test_the_watchdog_waits_longer_than_a_lease(put):
    put({"watchdog_seconds": 30})
    assert "django_jobs.E006" == only_fault().id


def test_a_queue_with_options_is_one_that_takes_jobs(put):
    options = put({"queues": {"mial": {"weight": 2}}}, QUEUES=["default", "mail"])
    with pytest.raises(InvalidOption):
        options.weight("default")
    assert "django_jobs.E007" == only_fault().id
    assert "Add 'mial' to QUEUES, or take it out here. Did you mean 'mail'?" == only_fault().hint
    put({"queues": {"mial": {"weight": 2}}}, QUEUES=[])
    assert [] == faults()


# Queues


def test_slots_and_weights_are_read_by_queue(put):
    options = put({"queues": {"a": {"slots": 4}, "b": {"weight": 3}, "c": {}}}, QUEUES=[])
    assert [4, 8, 8, 8] == [options.slots(name) for name in "abcd"]
    assert [1, 3, 1, 1] == [options.weight(name) for name in "abcd"]
    assert [4, 50] == [options.slots(name, default=50) for name in "ab"]


@pytest.mark.parametrize("name", ["__class__", "get", "keys", "slots", "None", "0"])
def test_a_queue_may_have_the_name_of_an_attribute(put, name):
    options = put(QUEUES=[])
    assert (8, 1) == (options.slots(name), options.weight(name))
    options = put({"queues": {name: {"slots": 2, "weight": 3}}}, QUEUES=[name])
    assert (2, 3, []) == (options.slots(name), options.weight(name), faults())


@pytest.mark.parametrize(
    "queues",
    [
        [],
        "a",
        3,
        {"a": 3},
        {"a": None},
        {"a": {"slots": 0}},
        {"a": {"slots": True}},
        {"a": {"slots": "4"}},
        {"a": {"slots": 2.0}},
        {"a": {"weight": 0}},
        {"a": {"weight": 1001}},
        {"a": {"weight": 1.5}},
        {"a": {"weight": None}},
        {"a": {"slot": 3}},
        {"a b": {}},
        {3: {}},
    ],
    ids=repr,
)
def test_wrong_options_of_queues_are_refused(put, queues):
    options = put({"queues": queues}, QUEUES=[])
    with pytest.raises(InvalidOption):
        options.slots("a")
    assert only_fault().id in {"django_jobs.E002", "django_jobs.E003"}


def test_an_unknown_key_of_a_queue_is_told_with_the_known_one(put):
    put({"queues": {"a": {"slot": 3}}}, QUEUES=[])
    assert "Take out 'slot'. Did you mean 'slots'?" == only_fault().hint
    assert "TASKS['default']['OPTIONS']['queues']['a'] is {'slot': 3}." == only_fault().message


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 100, "-", "."])
def test_names_of_queues(name):
    assert is_queue_name(name)


@pytest.mark.parametrize(
    "name", ["", "x" * 101, "a b", "a\n", "ä", "a/b", "a:3", "a\x00", 3, None, b"a"]
)
def test_what_is_no_name_of_a_queue(name):
    assert not is_queue_name(name)


def test_queues_keep_their_order_and_come_once(put):
    assert ["b", "a"] == put(QUEUES=("b", "a", "b")).queue_names
    assert [] == put(QUEUES=[]).queue_names


@pytest.mark.parametrize("queues", ["mail", None, 3, {"mail": {}}, ["a b"], [3], [[]]], ids=repr)
def test_wrong_queues_are_told_by_the_check_alone(put, queues):
    options = put(QUEUES=queues)
    with pytest.raises(InvalidOption):
        _ = options.queue_names
    assert "django_jobs.E008" == only_fault().id
    assert ["django_jobs.E008"] == [found.id for found in task_backends["default"].check()]


# Unknown keys


def test_an_unknown_option_is_told_with_the_known_one(put):
    put({"max_inflight": 3, "zzz": 1})
    assert [
        Problem(
            "django_jobs.E002",
            "TASKS['default']['OPTIONS']['max_inflight'] is no setting of django_jobs.",
            "Take it out. Did you mean 'max_in_flight'?",
        ),
        Problem(
            "django_jobs.E002",
            "TASKS['default']['OPTIONS']['zzz'] is no setting of django_jobs.",
            "Take it out.",
        ),
    ] == faults()


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("max_in_flight", "Move it into OPTIONS, as 'max_in_flight'."),
        ("MAX_IN_FLIGHT", "Move it into OPTIONS, as 'max_in_flight'."),
        ("QUEUE", "Take it out. Did you mean 'QUEUES'?"),
        ("colour", "Take it out."),
    ],
)
def test_a_key_beside_options_is_told_its_place(put, key, hint):
    put(**{key: 3})
    assert ("django_jobs.E002", hint) == (only_fault().id, only_fault().hint)


@pytest.mark.parametrize("options", [[], "x", 3, [("max_in_flight", 3)]], ids=repr)
def test_options_are_a_dictionary(put, options):
    put(options)
    assert ("django_jobs.E009", "Set it to a dictionary.") == (only_fault().id, only_fault().hint)


def test_all_faults_are_told_at_once_and_each_once(put):
    put({"max_in_flight": 0, "lease_seconds": "30", "backof": 1, "max_attempts": 0})
    assert 4 == len(faults()) == len(set(faults()))


# Overrides


def test_overrides_go_before_the_settings(put):
    put({"max_in_flight": 2, "drain_seconds": 3})
    options = Options("default", max_in_flight=9, drain_seconds=None)
    assert (9, 3) == (options.max_in_flight, options.drain_seconds)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ({"max_in_flight": 0}, "--max-in-flight is 0. Set it to a whole number from 1 to 1,000."),
        ({"max_in_flight": True}, "--max-in-flight is True."),
        ({"max_in_flight": "six"}, "--max-in-flight is 'six'."),
        ({"lease_seconds": 1}, "--lease is 1. Set it to a number of seconds from 2 to"),
        ({"lease_seconds": math.nan}, "--lease is nan."),
        ({"drain_seconds": -1}, "--drain-timeout is -1."),
        ({"queues": {"a": {"weight": 0}}}, "--queue['a']['weight'] is 0."),
        ({"queues": {"a b": {}}}, "--queue['a b'] is {}. Rename it:"),
    ],
)
def test_a_wrong_override_is_told_by_its_flag(put, override, words):
    put()
    [problem, *_] = problems("default", **override)
    assert words in f"{problem.message} {problem.hint}"


def test_a_flag_may_break_a_pair(put):
    put({"renew_seconds": 10})
    [problem] = problems("default", lease_seconds=20)
    assert "django_jobs.E004" == problem.id
    assert "which is 20" in problem.hint


def test_weights_of_a_command_line_leave_the_slots_of_the_settings(put):
    put({"queues": {"a": {"slots": 2, "weight": 5}, "b": {"weight": 7}}}, QUEUES=[])
    options = Options("default", queues={"a": {"weight": 3}, "z": {"weight": 2}})
    assert (2, 3) == (options.slots("a"), options.weight("a"))
    assert (7, 2) == (options.weight("b"), options.weight("z"))


def test_an_override_that_is_no_option_is_a_programming_error():
    with pytest.raises(TypeError, match="Did you mean 'max_in_flight'"):
        Options("default", max_inflight=3)


# Checks


def test_the_settings_of_the_test_project_are_sound():
    assert [] == list(problems("default"))


def test_djangos_own_check_calls_the_backends_and_says_each_thing_once(put):
    put({"max_in_flight": 0})
    found = [message for message in run_checks() if "max_in_flight" in message.msg]
    assert [("django_jobs.E003", "Set it to a whole number from 1 to 1,000.")] == [
        (message.id, message.hint) for message in found
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
    assert "pip install 'django-jobs[django52]'" in ran.stdout


SETTINGS = """
from django_jobs import constant
SECRET_KEY = "x"
INSTALLED_APPS = ["django_tasks"] if {backport} else []
INSTALLED_APPS += ["django.contrib.contenttypes", "django.contrib.auth", "django_jobs"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": "x"}}}}
TASKS = {{"default": {{"BACKEND": "{backend}", "OPTIONS": {{"backoff": constant(4)}}}}}}
"""


def test_a_backoff_can_be_imported_in_the_settings(tmp_path):
    text = SETTINGS.format(backend=BACKEND, backport=TASKS_APP == "django_tasks")
    (tmp_path / "site_settings.py").write_text(text)
    code = "import django; django.setup(); from django_jobs.conf import Options; "
    code += "print(Options('default').backoff.base); "
    code += "from django.core.checks import run_checks; print(run_checks())"
    environment = {"PYTHONPATH": f"{tmp_path}:.", "DJANGO_SETTINGS_MODULE": "site_settings"}
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ("4\n[]\n", "") == (ran.stdout, ran.stderr)


def test_an_invalid_option_knows_its_facts(put):
    put({"max_in_flight": 0})
    with pytest.raises(ImproperlyConfigured) as refused:
        _ = Options("default").max_in_flight
    error = refused.value
    assert isinstance(error, InvalidOption)
    assert ("TASKS['default']['OPTIONS']['max_in_flight']", 0) == (error.where, error.value)
    assert f"{error.fault} {error.cure}" == str(error)


def test_a_long_value_is_cut_in_the_message(put):
    put({"max_in_flight": "x" * 10_000})
    assert 250 > len(only_fault().message)


def test_nothing_near_means_no_suggestion():
    assert "" == did_you_mean("qqqq", OPTION_NAMES)
