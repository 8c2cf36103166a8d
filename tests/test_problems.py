"""How a wrong setting or flag is told: where it stands, and what cures it."""

from __future__ import annotations

import math
from functools import partial

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_jobs import Requires
from django_jobs.conf import OPTION_NAMES, InvalidOption, Options, Problem, did_you_mean, problems
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


# Unknown keys


def test_an_unknown_option_is_told_with_the_known_one(put):
    put({"max_inflight": 3, "timeout": 30, "resource": {}, "zzz": 1})
    assert [
        Problem(
            "django_jobs.E002",
            "TASKS['default']['OPTIONS']['max_inflight'] is no setting of django_jobs.",
            "Take it out. Did you mean 'max_in_flight'?",
        ),
        Problem(
            "django_jobs.E002",
            "TASKS['default']['OPTIONS']['timeout'] is no setting of django_jobs.",
            "Take it out. Did you mean 'timeout_seconds'?",
        ),
        Problem(
            "django_jobs.E002",
            "TASKS['default']['OPTIONS']['resource'] is no setting of django_jobs.",
            "Take it out. Did you mean 'resources'?",
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
        ("labels", "Move it into OPTIONS, as 'labels'."),
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
        (
            {"timeout_seconds": 0},
            "--timeout is 0. Set it to a number of seconds from 0.1 to 2,592,000, or leave it out",
        ),
        (
            {"timeout_seconds": "soon"},
            "--timeout is 'soon'. Set it to a number of seconds, or leave it out for none.",
        ),
        (
            {"grace_seconds": -1},
            "grace_seconds is -1. Set it to a number of seconds from 0 to 2,592,000.",
        ),
        ({"queues": {"a": {"weight": 0}}}, "--queue['a']['weight'] is 0."),
        ({"queues": {"a b": {}}}, "--queue['a b'] is {}. Rename it:"),
        ({"labels": ["a b"]}, "--label is ['a b']. Change 'a b':"),
        ({"resources": {"cpus": 0}}, "--resource['cpus'] is 0. Set 'cpus' to a number from"),
        ({"unknown_task_seconds": 0.5}, "unknown_task_seconds is 0.5. Set it to a number of"),
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


def test_weights_of_a_command_line_leave_what_the_queue_requires(put):
    put({"queues": {"a": {"requires": {"labels": ["gpu"]}}}}, QUEUES=[])
    assert Requires(labels={"gpu"}) == Options("default", queues={"a": {"weight": 3}}).requires(
        "a"
    )


def test_an_override_that_is_no_option_is_a_programming_error():
    with pytest.raises(TypeError, match="Did you mean 'max_in_flight'"):
        Options("default", max_inflight=3)


# The error


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
