"""Options: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import math
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from django_jobs import Requires, constant, exponential
from django_jobs.compat import task_backends
from django_jobs.conf import (
    DEFAULT_SLOTS,
    OPTION_NAMES,
    InvalidOption,
    Options,
    Problem,
    is_queue_name,
    problems,
)
from django_jobs.conf.retention import DEFAULTS
from tests.aliases import put_options


@pytest.fixture
def put(settings):
    """Set OPTIONS, and other keys, of the default alias."""
    return partial(put_options, settings)


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
        "timeout_seconds": None,
        "grace_seconds": 10.0,
        "labels": frozenset(),
        "resources": {},
        "cron": {},
        "unknown_task_seconds": 3600.0,
        "retention": dict(DEFAULTS),
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
    "grace_seconds",
    "unknown_task_seconds",
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
        ("timeout_seconds", 0.1, None),
        ("grace_seconds", 0, None),
        ("poll_floor_seconds", 0.01, 10),
        ("unknown_task_seconds", 1, None),
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


@pytest.mark.parametrize("value", [*NO_NUMBERS[1:], 0, 0.09, 2_592_001, timedelta(1)], ids=repr)
def test_a_timeout_is_seconds_or_none_at_all(put, value):
    assert None is put({"timeout_seconds": None}).timeout_seconds
    assert [] == faults()
    options = put({"timeout_seconds": value})
    with pytest.raises(InvalidOption, match="Set it to a number of seconds"):
        _ = options.timeout_seconds
    assert "django_jobs.E003" == only_fault().id
    assert f"TASKS['default']['OPTIONS']['timeout_seconds'] is {value!r}." == only_fault().message
    assert only_fault().hint.endswith(", or leave it out for none.")


def test_a_flag_goes_before_the_timeout_of_the_settings(put):
    put({"timeout_seconds": 60, "grace_seconds": 3})
    options = Options("default", timeout_seconds=5, grace_seconds=0)
    assert (5.0, 0.0) == (options.timeout_seconds, options.grace_seconds)
    assert 60.0 == Options("default", timeout_seconds=None).timeout_seconds


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


@pytest.mark.parametrize("lease", [2, 7, 10, 11.1, 31, 398.8409206520193])
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
        {"a": {"requires": "gpu"}},
        {"a": {"requires": {"gpu"}}},
        {"a": {"requires": {"label": {"gpu"}}}},
        {"a": {"requires": {3: 4}}},
        {"a": {"requires": {"labels": "gpu"}}},
        {"a": {"requires": {"host": ""}}},
        {"a": {"requires": {"resources": {"a": 0}}}},
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


# What a queue requires


@pytest.mark.parametrize(
    "said",
    [
        Requires(host="web-1", labels={"gpu"}, resources={"memory_mb": 6000}),
        {"host": "web-1", "labels": ["gpu"], "resources": {"memory_mb": 6000}},
    ],
    ids=["value", "dictionary"],
)
def test_a_queue_may_say_what_its_jobs_require(put, said):
    options = put({"queues": {"a": {"requires": said}, "b": {}}}, QUEUES=[])
    asked = Requires(host="web-1", labels={"gpu"}, resources={"memory_mb": 6000})
    assert [asked, None, None] == [options.requires(name) for name in "abc"]
    assert asked == options.queues["a"].requires
    assert [] == faults()


def test_a_queue_may_say_that_its_jobs_require_nothing(put):
    for said in ({}, {"host": None}, Requires()):
        assert Requires() == put({"queues": {"a": {"requires": said}}}, QUEUES=[]).requires("a")
    assert put({"queues": {"a": {"requires": None}}}, QUEUES=[]).requires("a") is None
    assert [] == faults()


def test_what_one_queue_requires_is_told_whatever_is_wrong_with_another(put):
    """An enqueue asks for its own queue alone; the check tells of all."""
    options = put({"queues": {"a": {"requires": {}}, "b": {"slots": 0}}}, QUEUES=[])
    assert [Requires(), None] == [options.requires(name) for name in "ac"]
    assert ["django_jobs.E003"] == [fault.id for fault in faults()]
    with pytest.raises(InvalidOption):
        options.requires("b")
    with pytest.raises(InvalidOption):
        put({"queues": []}, QUEUES=[]).requires("a")


def test_what_belongs_into_requires_is_told_so(put: Any):
    put({"queues": {"a": {"labels": {"gpu"}}}}, QUEUES=[])
    [fault] = faults()
    assert ("django_jobs.E002", "Move 'labels' into 'requires'.") == (fault.id, fault.hint)


QUEUE_A = "TASKS['default']['OPTIONS']['queues']['a']['requires']"


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (
            {"lables": {"gpu"}},
            "E002",
            f"{QUEUE_A} is {{'lables': {{'gpu'}}}}. Take out 'lables'. Did you mean 'labels'?",
        ),
        (
            "gpu",
            "E003",
            (
                f"{QUEUE_A} is 'gpu'. Set it to Requires(…), imported from django_jobs, or to "
                "{'labels': {'gpu'}}."
            ),
        ),
        (
            {"labels": "gpu"},
            "E003",
            f"{QUEUE_A}['labels'] is 'gpu'. Set it to a set of labels, such as {{'gpu'}}.",
        ),
        (
            {"resources": {"cpus": -1}},
            "E003",
            f"{QUEUE_A}['resources']['cpus'] is -1. Set 'cpus' to a number from 0.001 to 1e15.",
        ),
        (
            {"host": "a b"},
            "E003",
            (
                f"{QUEUE_A}['host'] is 'a b'. Change it: the name of a host is printable text of "
                "1 to 100 characters without spaces."
            ),
        ),
    ],
    ids=["key", "text", "labels", "resources", "host"],
)
def test_wrong_requirements_of_a_queue_are_told_with_the_cure(put, said, code, words):
    put({"queues": {"a": {"requires": said}}}, QUEUES=[])
    assert (f"django_jobs.{code}", words) == (
        only_fault().id,
        f"{only_fault().message} {only_fault().hint}",
    )


# What workers offer


def test_workers_offer_what_the_settings_say(put):
    options = put({"labels": ["gpu", "region:eu"], "resources": {"memory_mb": 8000, "cpus": 1.5}})
    assert frozenset({"gpu", "region:eu"}) == options.labels
    assert {"cpus": 1.5, "memory_mb": 8000} == options.resources
    assert [] == faults()


@pytest.mark.parametrize("value", ["gpu", None, 3, {"gpu": 1}, ["a b"], [""], [3], [[]]], ids=repr)
def test_labels_are_a_collection_of_labels(put, value):
    put({"labels": value})
    assert "django_jobs.E003" == only_fault().id
    assert f"TASKS['default']['OPTIONS']['labels'] is {value!r}." == only_fault().message


@pytest.mark.parametrize("value", ["cpus", None, 3, ["cpus"], {"a b": 1}, {3: 1}], ids=repr)
def test_resources_are_names_and_amounts(put, value):
    put({"resources": value})
    assert "django_jobs.E003" == only_fault().id
    assert f"TASKS['default']['OPTIONS']['resources'] is {value!r}." == only_fault().message


@pytest.mark.parametrize("amount", [0, -1, True, "1", None, math.nan, math.inf, 1e16], ids=repr)
def test_an_amount_that_cannot_be_held_is_told_by_its_name(put, amount):
    put({"resources": {"cpus": amount}})
    assert (
        "django_jobs.E003",
        f"TASKS['default']['OPTIONS']['resources']['cpus'] is {amount!r}.",
        "Set 'cpus' to a number from 0.001 to 1e15.",
    ) == only_fault()


# Names of queues


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
