"""What can be asked of a host, the ladder of amounts, and why a host passes over a job."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import django_jobs
from django_jobs import Requires
from django_jobs.exceptions import DjangoJobsError, InvalidRequires
from django_jobs.placement import (
    LARGEST,
    MOST,
    RECORDED,
    SLACK,
    SMALLEST,
    Host,
    Mismatch,
    Needs,
    Now,
    Reason,
    fits,
    has_free,
    is_amount,
    lasting,
    mismatches,
    rung,
    written,
)

require: Any = Requires  # with whatever arguments

AMOUNTS = st.floats(SMALLEST, LARGEST) | st.integers(1, int(LARGEST))
LABELS = ("gpu", "fast", "os:linux", "os:windows", "arch:arm64", "arch:x86_64", "python:3.13")
NAMES = ("memory_mb", "cpus", "seats")


def asked(host: str | None = None, task: str | None = None, **given: Any) -> Needs:
    """Return needs by the arguments of Requires."""
    return Needs(requires=Requires(host=host, **given), task=task)


# Requires: what is asked for


def test_requires_is_public():
    assert "Requires" in django_jobs.__all__
    assert django_jobs.Requires is Requires


def test_nothing_is_required_of_any_host():
    assert (None, frozenset(), {}) == (Requires().host, Requires().labels, Requires().resources)
    assert asked().is_anywhere
    for given_ in ({"host": "a"}, {"labels": {"a"}}, {"resources": {"a": 1}}, {"task": "a.b"}):
        assert not asked(**given_).is_anywhere


LABEL_RULE = (
    "a label is 1 to 100 characters of letters, digits and '_ - . : / +', and begins with a "
    "letter or digit."
)
RESOURCE_RULE = (
    "the name of a resource is 1 to 50 characters of letters, digits and '_', and begins with a "
    "letter."
)
HOST_RULE = "the name of a host is printable text of 1 to 100 characters without spaces."
NO_LABELS = "Set it to a set of labels, such as {'gpu'}."
NO_AMOUNTS = "Set it to a dictionary, such as {'memory_mb': 6000}."
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"host": ""}, f"host is ''. Change it: {HOST_RULE}"),
    ({"host": "a b"}, f"host is 'a b'. Change it: {HOST_RULE}"),
    ({"host": "a\n"}, f"host is 'a\\n'. Change it: {HOST_RULE}"),
    ({"host": "a\x00"}, f"host is 'a\\x00'. Change it: {HOST_RULE}"),
    ({"host": "\ud800"}, f"host is '\\ud800'. Change it: {HOST_RULE}"),
    ({"host": 3}, f"host is 3. Change it: {HOST_RULE}"),
    ({"host": ["a"]}, f"host is ['a']. Change it: {HOST_RULE}"),
    ({"host": "x" * 101}, f"host is '{'x' * 101}'. Cut it, it has 101: {HOST_RULE}"),
    ({"labels": "gpu"}, f"labels is 'gpu'. {NO_LABELS}"),
    ({"labels": b"gpu"}, f"labels is b'gpu'. {NO_LABELS}"),
    ({"labels": None}, f"labels is None. {NO_LABELS}"),
    ({"labels": {"gpu": 1}}, f"labels is {{'gpu': 1}}. {NO_LABELS}"),
    ({"labels": 3}, f"labels is 3. {NO_LABELS}"),
    ({"labels": [3]}, f"labels is [3]. Change 3: {LABEL_RULE}"),
    ({"labels": [[]]}, f"labels is [[]]. Change []: {LABEL_RULE}"),
    ({"labels": [""]}, f"labels is ['']. Change '': {LABEL_RULE}"),
    ({"labels": ["a b"]}, f"labels is ['a b']. Change 'a b': {LABEL_RULE}"),
    ({"labels": ["a\n"]}, f"labels is ['a\\n']. Change 'a\\n': {LABEL_RULE}"),
    ({"labels": ["-a"]}, f"labels is ['-a']. Change '-a': {LABEL_RULE}"),
    ({"labels": ["a,b"]}, f"labels is ['a,b']. Change 'a,b': {LABEL_RULE}"),
    ({"labels": ["ä"]}, f"labels is ['ä']. Change 'ä': {LABEL_RULE}"),
    ({"labels": ["a=1"]}, f"labels is ['a=1']. Change 'a=1': {LABEL_RULE}"),
    ({"labels": ("x" * 101,)}, f"labels is ('{'x' * 101}',). Change '{'x' * 101}': {LABEL_RULE}"),
    ({"resources": None}, f"resources is None. {NO_AMOUNTS}"),
    ({"resources": [("a", 1)]}, f"resources is [('a', 1)]. {NO_AMOUNTS}"),
    ({"resources": {"a": -1}}, "resources['a'] is -1. Set 'a' to a number from 0.001 to 1e15."),
    ({"resources": {"a b": 1}}, f"resources is {{'a b': 1}}. Change 'a b': {RESOURCE_RULE}"),
    ({"resources": {"os:x": 1}}, f"resources is {{'os:x': 1}}. Change 'os:x': {RESOURCE_RULE}"),
    ({"resources": {"_a": 1}}, f"resources is {{'_a': 1}}. Change '_a': {RESOURCE_RULE}"),
    ({"resources": {3: 1}}, f"resources is {{3: 1}}. Change 3: {RESOURCE_RULE}"),
]


@pytest.mark.parametrize(("given_", "words"), REFUSED, ids=lambda value: repr(value)[:40])
def test_what_no_worker_could_offer_is_refused_with_the_cure(given_, words):
    with pytest.raises(InvalidRequires) as refused:
        require(**given_)
    assert words == str(refused.value)
    assert isinstance(refused.value, (DjangoJobsError, TypeError, ValueError))
    assert words == f"{refused.value.where} is {refused.value.value!r:.120}. {refused.value.cure}"


NO_AMOUNT = (0, -1, 0.0009, 1.1e15, 10**400, True, "1", None, math.nan, math.inf, -math.inf, 1j)


@pytest.mark.parametrize("amount", NO_AMOUNT, ids=lambda value: repr(value)[:20])
def test_an_amount_is_a_number_that_can_be_held(amount):
    assert not is_amount(amount)
    with pytest.raises(InvalidRequires, match=r"Set 'memory_mb' to a number from 0\.001 to 1e15"):
        require(resources={"memory_mb": amount})


@pytest.mark.parametrize("amount", [1, 0.5, SMALLEST, LARGEST, int(LARGEST)])
def test_amounts_that_can_be_held(amount):
    assert is_amount(amount)
    assert {"a": amount} == Requires(resources={"a": amount}).resources


@pytest.mark.parametrize("label", ["gpu", "7", "os:linux", "a/b", "region:eu-1", "x" * 100, "c++"])
def test_labels_that_can_be_asked_for(label):
    assert {label} == Requires(labels=[label]).labels


def test_so_many_are_no_requirement_of_one_job():
    many = [f"a{number}" for number in range(MOST + 1)]
    assert MOST == len(Requires(labels=many[1:]).labels)
    with pytest.raises(InvalidRequires, match=f"Name at most {MOST} labels"):
        require(labels=many)
    with pytest.raises(InvalidRequires, match=f"Name at most {MOST} resources"):
        require(resources=dict.fromkeys(many, 1))


def test_an_unknown_argument_is_a_type_error():
    with pytest.raises(TypeError, match="lables"):
        require(lables={"gpu"})
    with pytest.raises(TypeError):
        require("gpu")


def test_what_is_required_cannot_be_changed_afterwards():
    labels, amounts = ["gpu"], {"memory_mb": 1}
    requires: Any = Requires(labels=labels, resources=amounts)
    labels.append("other")
    amounts["memory_mb"] = 2
    assert ({"gpu"}, {"memory_mb": 1}) == (requires.labels, requires.resources)
    with pytest.raises(TypeError):
        requires.resources["memory_mb"] = 3
    with pytest.raises(AttributeError):
        requires.host = "b"


def test_requires_is_a_value():
    one = Requires(host="a", labels=["x", "y"], resources={"m": 1, "n": 2.0})
    two = Requires(host="a", labels={"y", "x"}, resources={"n": 2, "m": 1.0})
    assert (one, hash(one)) == (two, hash(two))
    for other in ({"host": "b"}, {"labels": ["x"]}, {"resources": {"m": 1}}):
        assert one != replace(one, **other)
    for copied in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (one, hash(one)) == (copied, hash(copied))
        with pytest.raises(TypeError):
            copied.resources["m"] = 3  # type: ignore[index]


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (asked(), "any host"),
        (asked(host="web-1"), "host web-1"),
        (asked(labels={"os:linux", "gpu"}), "gpu, os:linux"),
        (asked(resources={"b": 8_000_000, "a": 0.25}), "a 0.25, b 8000000"),
        (
            asked(host="h", labels={"l"}, resources={"a": 1}, task="t.t"),
            "host h, l, a 1, task t.t",
        ),
    ],
)
def test_needs_are_said_in_a_line(needs, words):
    assert words == str(needs)
    if needs.task is None:
        assert words == str(needs.requires)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(1e15, "1000000000000000"), (8_000_001, "8000001"), (0.1 * 3, "0.3"), (0.001, "0.001")],
)
def test_amounts_are_written_as_people_write_them(amount, text):
    assert text == written(amount)


# The ladder


@pytest.mark.parametrize(
    "amount", [512, 1024, 6144, 8192, 7900, 0.1, 1.5, 30, 1e15, 0.001, 2**40, 1, 3, 640, 0.25]
)
def test_usual_amounts_stay_as_they_are(amount):
    assert amount == rung(amount)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(6100, 6100), (6101, 6144), (6145, 6200), (101, 110), (1025, 1100), (0.1 * 3, 0.3)],
)
def test_other_amounts_are_rounded_up(amount, expected):
    assert expected == rung(amount)


def test_whole_amounts_are_whole_numbers():
    assert [int, int, float] == [type(rung(amount)) for amount in (512, 512.0, 1.5)]


@given(AMOUNTS)
@example(10.000000001)
@example(math.nextafter(100, 0))
@example(math.nextafter(1024, math.inf))
def test_a_rung_is_no_smaller_and_less_than_a_tenth_larger(amount):
    assert amount * (1 - SLACK) <= rung(amount) < amount * 1.1


@given(AMOUNTS)
def test_a_rung_stays_on_its_rung(amount):
    found = rung(amount)
    assert (found, type(found)) == (rung(found), type(rung(found)))
    assert is_amount(found)


@given(AMOUNTS, AMOUNTS, st.floats(1, 1.2))
def test_more_is_never_a_lower_rung(one, other, factor):
    for low, high in (sorted([one, other]), [one, min(one * factor, LARGEST)]):
        assert rung(low) <= rung(high)


def test_rungs_are_few():
    found = {rung(amount) for amount in range(1000, 10_001)}
    assert 110 > len(found)
    assert all(low < high <= 1.1 * low for low, high in pairwise(sorted(found)))


# The digest

REQUIRES = st.builds(
    Requires,
    host=st.none() | st.sampled_from(["a", "b", "ä"]),
    labels=st.sets(st.sampled_from(LABELS), max_size=3),
    resources=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1, 1.0, 2, 4.5])),
)
NEEDS = st.builds(Needs, requires=REQUIRES, task=st.none() | st.sampled_from(["a", "t.t"]))


@given(NEEDS, NEEDS)
def test_equal_needs_and_no_others_have_one_digest(one, other):
    assert (one == other) is (one.digest == other.digest)


@given(REQUIRES, st.randoms())
def test_the_digest_knows_no_order(requires, random):
    labels, amounts = list(requires.labels), list(requires.resources.items())
    random.shuffle(labels)
    random.shuffle(amounts)
    again = Requires(host=requires.host, labels=labels, resources=dict(amounts))
    assert Needs(requires=requires).digest == Needs(requires=again).digest


def test_amounts_on_one_rung_are_one_placement():
    one, other = (asked(resources={"memory_mb": amount}) for amount in (6145, 6199.5))
    assert one.digest == other.digest
    assert {"memory_mb": 6200} == one.amounts == other.amounts
    assert one.digest == asked(resources=one.amounts).digest


def test_a_host_is_no_label_and_no_task():
    digests = {needs.digest for needs in (asked(host="a"), asked(labels={"a"}), asked(task="a"))}
    assert 3 == len(digests)
    assert {32} == {len(digest) for digest in digests}


def test_the_digest_is_the_same_in_every_process():
    needs = asked("web-1", labels=LABELS, resources={"memory_mb": 6000, "cpus": 1.5, "a": 1})
    assert "1d4b86778be390ed72f17de247742aa8" == needs.digest


# Why a host passes over a job


def host_of(*labels: str, knows: bool = True, **resources: float) -> Host:
    return Host(
        names={"web-1", "web-1.example"},
        labels=labels,
        resources=resources,
        knows=lambda _task: knows,
    )


@pytest.mark.parametrize(
    ("needs", "host", "expected"),
    [
        (asked(), host_of(), []),
        (asked(task="t.t"), host_of(), []),
        (asked(task="t.t"), host_of(knows=False), [("unknown_task", "t.t")]),
        (asked(), host_of(knows=False), []),
        (asked(host="web-1"), host_of(), []),
        (asked(host="web-1.example"), host_of(), []),
        (asked(host="web"), host_of(), [("host", "web")]),
        (asked(labels={"gpu"}), host_of("gpu", "fast"), []),
        (asked(labels={"gpu", "big", "fast"}), host_of("fast"), [("label", "big, gpu")]),
        (asked(labels={"os:linux"}), host_of("os:darwin"), [("os", "os:linux")]),
        (asked(labels={"os:a", "os:b"}), host_of(), [("os", "os:a, os:b")]),
        (asked(labels={"arch:arm64"}), host_of(), [("arch", "arch:arm64")]),
        (asked(labels={"python:3.13"}), host_of(), [("label", "python:3.13")]),
        (asked(labels={"os", "arch"}), host_of(), [("label", "arch, os")]),
        (asked(resources={"memory_mb": 6000}), host_of(memory_mb=6000), []),
        (asked(resources={"memory_mb": 6000}), host_of(), [("resource", "memory_mb 0 of 6000")]),
        (
            asked(resources={"cpus": 2, "bytes": 8_000_000}),
            host_of(cpus=1.5, bytes=7_999_999),
            [("resource", "bytes 7999999 of 8000000, cpus 1.5 of 2")],
        ),
        (
            asked("h", "t", labels={"x", "arch:x", "os:x"}, resources={"m": 1}),
            host_of(knows=False),
            [
                ("unknown_task", "t"),
                ("host", "h"),
                ("os", "os:x"),
                ("arch", "arch:x"),
                ("label", "x"),
                ("resource", "m 0 of 1"),
            ],
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Needs) else None,
)
def test_why_a_host_can_never_run_a_job(needs, host, expected):
    assert expected == list(lasting(needs, host))
    assert (not expected) is fits(needs, host)


@pytest.mark.parametrize(
    ("needs", "now", "expected"),
    [
        (asked(), Now(), []),
        (asked(), Now(serves=False), [("queue_not_served", "")]),
        (asked(), Now(paused=True), [("queue_paused", "")]),
        (asked(), Now(draining=True), [("draining", "")]),
        (asked(), Now(room=0), [("at_capacity", "all places are taken")]),
        (asked(), Now(room=-1), [("at_capacity", "all places are taken")]),
        (asked(), Now(slots=0), [("at_capacity", "all slots of the queue are taken")]),
        (asked(), Now(suspect=True), []),
        (asked(resources={"m": 5}), Now(free={"m": 5}), []),
        (asked(resources={"m": 5}), Now(free={"m": 4.9}), [("at_capacity", "m in use")]),
        (
            asked(resources={"m": 5, "c": 1, "d": 1}),
            Now(free={"d": 1}),
            [("at_capacity", "c, m in use")],
        ),
        (
            asked(),
            Now(serves=False, paused=True, draining=True, room=0, slots=0),
            [
                ("queue_not_served", ""),
                ("queue_paused", ""),
                ("draining", ""),
                ("at_capacity", "all places are taken"),
                ("at_capacity", "all slots of the queue are taken"),
            ],
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Needs) else None,
)
def test_why_a_worker_cannot_take_a_job_now(needs, now, expected):
    assert expected == list(mismatches(needs, host_of(m=9, c=9, d=9), now))


def test_a_worker_holds_one_suspect():
    found = [
        [*mismatches(asked(), host_of(), Now(suspect=held), suspect=suspect)]
        for held in (False, True)
        for suspect in (False, True)
    ]
    assert [[], [], [], [(Reason.AT_CAPACITY, "it holds another suspect")]] == found


HOSTS = st.builds(
    Host,
    names=st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
    labels=st.sets(st.sampled_from(LABELS)),
    resources=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0.5, 1, 2, 9])),
    knows=st.sampled_from([lambda _task: True, lambda _task: False]),
)
NOWS = st.builds(
    Now,
    serves=st.booleans(),
    paused=st.booleans(),
    draining=st.booleans(),
    room=st.integers(0, 1),
    slots=st.integers(0, 1),
    free=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0, 1, 2])),
    suspect=st.booleans(),
)
ORDER = list(Reason)


@given(NEEDS, HOSTS, NOWS, st.booleans())
def test_reasons_come_in_the_order_of_the_enum_with_the_lasting_ones_among_them(
    needs, host, now, suspect
):
    found = list(mismatches(needs, host, now, suspect=suspect))
    places = [ORDER.index(mismatch.reason) for mismatch in found]
    assert sorted(places) == places
    told = [each for each in found if each.reason in RECORDED]
    assert told == list(lasting(needs, host))
    assert len(told) == len({each.reason for each in told})
    assert fits(needs, host) is (not told)


@given(NEEDS, HOSTS, NOWS)
def test_what_is_recorded_does_not_change_with_what_is_used(needs, host, now):
    assume(not fits(needs, host))
    idle = [each for each in mismatches(needs, host, Now()) if each.reason in RECORDED]
    assert idle == [each for each in mismatches(needs, host, now) if each.reason in RECORDED]


def test_the_codes_of_the_reasons_are_public():
    assert [
        "queue_not_served",
        "queue_paused",
        "draining",
        "unknown_task",
        "host",
        "os",
        "arch",
        "label",
        "resource",
        "at_capacity",
    ] == [str(reason) for reason in Reason]
    assert {"unknown_task", "host", "os", "arch", "label", "resource"} == RECORDED
    assert Mismatch(Reason.OS, "os:linux") == (Reason("os"), "os:linux")


# What is free


def test_sums_of_amounts_are_compared_with_some_slack():
    tenth = asked(resources={"cpus": 0.1}).amounts
    free = 0.3
    for _ in range(3):
        assert has_free(tenth, {"cpus": free})
        free -= 0.1
    assert not has_free(tenth, {"cpus": free})
    assert has_free({"cpus": 0.1 * 3}, {"cpus": 0.3})
    assert has_free({"cpus": 0.3}, {"cpus": 1 - 0.7})


@given(st.integers(1, 60), st.sampled_from([0.1, 0.7, 1.5, 3.3, 512, 0.001]))
def test_as_many_fit_as_are_offered(count, amount):
    asks, free, held = {"cpus": amount}, {"cpus": amount * count}, 0
    while has_free(asks, free):
        free["cpus"] -= amount
        held += 1
    assert count == held


def test_all_that_is_asked_for_must_be_free():
    asks = {"a": 1, "b": 2}
    assert has_free(asks, {"a": 1, "b": 2, "c": 0})
    assert not has_free(asks, {"a": 1, "b": 1.9})
    assert not has_free(asks, {"a": 1})
    assert has_free({}, {})
