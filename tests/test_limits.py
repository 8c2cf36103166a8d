"""What a limit says, what it refuses to be, and the key that it makes of a call."""

from __future__ import annotations

import copy
import enum
import math
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import django_jobs
from django_jobs import Limit
from django_jobs.exceptions import DjangoJobsError, InvalidLimit
from django_jobs.limits import (
    BURST_CURE,
    BUSY_CURE,
    KEY_CURE,
    LARGEST,
    LONGEST_KEY,
    MADE_CURE,
    RATE_CURE,
    SIZE_CURE,
    LimitFacts,
    key_of,
    names_in,
)

limit: Any = Limit  # with whatever arguments
RATES = st.integers(1, 999_999_999), st.sampled_from("smhd")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def by_customer(*, customer: object) -> Any:
    """Return what the caller wants to see as a key."""
    return customer


# The value


def test_limit_is_public():
    assert "Limit" in django_jobs.__all__
    assert django_jobs.Limit is Limit


def test_a_size_alone_says_nothing_of_the_rate():
    made = Limit("mail", 2)
    assert ("mail", 2, None, None, 1, "wait") == (
        made.key,
        made.size,
        made.rate,
        made.every,
        made.burst,
        made.when_busy,
    )


def test_limits_that_say_the_same_are_equal_and_hash_alike():
    one, other = Limit("a:{b}", size=2, rate="3/s"), Limit("a:{b}", size=2, rate="3/s")
    assert one == other
    assert 1 == len({one, other, copy.copy(one), copy.deepcopy(one)})
    others = [
        Limit("a:{c}", size=2, rate="3/s"),
        Limit("a:{b}", size=3, rate="3/s"),
        Limit("a:{b}", size=2, rate="3/m"),
        Limit("a:{b}", size=2, rate="3/s", burst=2),
        Limit("a:{b}", size=2, rate="3/s", when_busy="discard"),
    ]
    assert 6 == len({one, *others})


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_limit_can_be_pickled(protocol):
    for made in (Limit("a:{b}", size=2, rate="3/s", burst=4), Limit(by_customer, size=1)):
        assert made == pickle.loads(pickle.dumps(made, protocol))


def test_a_limit_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Limit("a", size=1).size = 2  # type: ignore[misc]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "Limit(…) says neither size nor rate. Say one of them, or both."),
    ({"size": -1}, f"size is -1. {SIZE_CURE}"),
    ({"size": LARGEST + 1}, f"size is 1000001. {SIZE_CURE}"),
    ({"size": True}, f"size is True. {SIZE_CURE}"),
    ({"size": 2.0}, f"size is 2.0. {SIZE_CURE}"),
    ({"size": "2"}, f"size is '2'. {SIZE_CURE}"),
    ({"rate": "100"}, f"rate is '100'. {RATE_CURE}"),
    ({"rate": "0/m"}, f"rate is '0/m'. {RATE_CURE}"),
    ({"rate": "-1/m"}, f"rate is '-1/m'. {RATE_CURE}"),
    ({"rate": "1.5/m"}, f"rate is '1.5/m'. {RATE_CURE}"),
    ({"rate": "100/min"}, f"rate is '100/min'. {RATE_CURE}"),
    ({"rate": "100 / m"}, f"rate is '100 / m'. {RATE_CURE}"),
    ({"rate": "100/m\n"}, f"rate is '100/m\\n'. {RATE_CURE}"),
    ({"rate": "\u0661/m"}, f"rate is '\u0661/m'. {RATE_CURE}"),
    ({"rate": "1\u0660/m"}, f"rate is '1\u0660/m'. {RATE_CURE}"),
    ({"rate": "1000000000/s"}, f"rate is '1000000000/s'. {RATE_CURE}"),
    ({"rate": "100/w"}, f"rate is '100/w'. {RATE_CURE}"),
    ({"rate": 100}, f"rate is 100. {RATE_CURE}"),
    ({"rate": "1/s", "burst": 0}, f"burst is 0. {BURST_CURE}"),
    ({"rate": "1/s", "burst": True}, f"burst is True. {BURST_CURE}"),
    ({"rate": "1/s", "burst": None}, f"burst is None. {BURST_CURE}"),
    ({"rate": "1/s", "burst": LARGEST + 1}, f"burst is 1000001. {BURST_CURE}"),
    ({"size": 1, "burst": 2}, "burst is 2. Say a rate too, which alone has a burst."),
    ({"size": 1, "when_busy": "drop"}, f"when_busy is 'drop'. {BUSY_CURE}"),
    ({"size": 1, "when_busy": None}, f"when_busy is None. {BUSY_CURE}"),
    ({"size": 1, "when_busy": ["wait"]}, f"when_busy is ['wait']. {BUSY_CURE}"),
]
NO_KEYS: list[tuple[Any, str]] = [
    ("", f"key is ''. {KEY_CURE}"),
    (None, f"key is None. {KEY_CURE}"),
    (b"a", f"key is b'a'. {KEY_CURE}"),
    ("a\n", f"key is 'a\\n'. {MADE_CURE}"),
    ("a\x00{b}", f"key is 'a\\x00{{b}}'. {MADE_CURE}"),
    ("\ud800", f"key is '\\ud800'. {MADE_CURE}"),
    ("x" * 201, f"key is '{'x' * 119}. {MADE_CURE}"),
    ("{", "key is '{', which cannot be read: Single '{' encountered in format string. Write {{"),
    ("a}", "key is 'a}', which cannot be read: Single '}' encountered in format string."),
    ("{}", "key is '{}', which asks for {}. Put nothing but names of arguments in braces, or"),
    ("{0}", "asks for {0}. Put"),
    ("{a.b}", "asks for {a.b}. Put"),
    ("{a[b]}", "asks for {a[b]}. Put"),
    ("{a b}", "asks for {a b}. Put"),
    ("{a!r}", "asks for {a!r}. Put"),
    ("{a:>20}", "asks for {a:>20}. Put"),
    ("{a:{b}}", "asks for {a:{b}}. Put"),
]


@pytest.mark.parametrize(("options", "told"), REFUSED)
def test_what_could_not_be_obeyed_is_refused_with_its_cure(options, told):
    with pytest.raises(InvalidLimit) as refused:
        limit("a", **options)
    assert told == str(refused.value)


@pytest.mark.parametrize(("key", "told"), NO_KEYS)
def test_a_key_that_could_not_be_made_is_refused_where_it_is_written(key, told):
    with pytest.raises(InvalidLimit) as refused:
        limit(key, size=1)
    assert told in str(refused.value)


@pytest.mark.parametrize("kind", [DjangoJobsError, TypeError, ValueError])
def test_a_refused_limit_is_caught_as_djangos_mistakes_are(kind):
    with pytest.raises(kind):
        limit("a")


def test_the_bounds_themselves_are_kept():
    assert 0 == Limit("a", size=0).size
    assert LARGEST == Limit("a", size=LARGEST, rate="1/d", burst=LARGEST).burst
    assert "x" * LONGEST_KEY == Limit("x" * LONGEST_KEY, size=1).key


# The rate


@pytest.mark.parametrize(
    ("rate", "every"),
    [("1/s", 1), ("4/s", 0.25), ("100/m", 0.6), ("1/m", 60), ("90/h", 40), ("1/d", 86_400)],
)
def test_a_rate_is_the_time_between_two_starts(rate, every):
    assert every == Limit("a", rate=rate).every


@given(*RATES)
@example(999_999_999, "s")
@example(1, "d")
def test_every_rate_brings_its_number_of_starts_in_its_unit(count, unit):
    every = Limit("a", rate=f"{count}/{unit}").every
    assert every is not None
    assert every > 0
    assert math.isclose(SECONDS[unit], every * count)


@given(st.text(max_size=12) | st.from_regex(r"\s*[0-9]*\s*/?\s*[a-z]*\s*", fullmatch=True))
@example("1/s\n")
@example("01/s")
@example("1/")
@example("1000000000/s")
def test_only_what_reads_as_a_rate_is_one(text):
    count, _, unit = text.partition("/")
    number = int(count) if count.isdecimal() else 0
    if 0 < number < 10**9 and str(number) == count and unit in SECONDS:
        assert SECONDS[unit] / number == Limit("a", rate=text).every
    else:
        with pytest.raises(InvalidLimit) as refused:
            Limit("a", rate=text)
        assert f"rate is {text!r:.120}. {RATE_CURE}" == str(refused.value)


# The key


def test_names_are_found_in_their_order():
    assert ["b", "c", "b"] == names_in("a:{b}:{c}/{b}", "limit")
    assert [] == names_in("a:{{b}}", "limit")


@pytest.mark.parametrize(
    ("key", "given_", "made"),
    [
        ("mail", {}, "mail"),
        ("c:{a}", {"a": 7}, "c:7"),
        ("c:{a}", {"a": "Ada Lovelace"}, "c:Ada Lovelace"),
        ("{a}", {"a": None}, "None"),
        ("{a}", {"a": True}, "True"),
        ("{a}", {"a": 1.5}, "1.5"),
        ("{a}", {"a": [1, "x"]}, "[1, 'x']"),
        ("{a}:{b}", {"a": "{b}", "b": 1, "c": 2}, "{b}:1"),
        ("{{a}}", {"a": 1}, "{a}"),
    ],
)
def test_an_argument_stands_in_the_key_as_text(key, given_, made):
    assert made == key_of(key, (), {}, given_, what="limit")


def test_a_function_is_called_as_the_task_is():
    def key(order: int, *rest: int, customer: str) -> str:
        return f"{order}/{rest}/{customer}"

    assert "1/(2,)/x" == key_of(key, [1, 2], {"customer": "x"}, {}, what="limit")


@pytest.mark.parametrize("made", ["", "x" * 201, "a\nb", "\x00", "\ud800", None, 7, b"a"])
def test_a_key_that_no_row_could_keep_is_refused_when_it_is_made(made):
    told = f"the key of limit is {made!r:.120}. {MADE_CURE}"
    for key in (by_customer, "{customer}"):
        if key == "{customer}" and not isinstance(made, str):
            continue  # it stands there as text
        with pytest.raises(InvalidLimit) as refused:
            key_of(key, (), {"customer": made}, {"customer": made}, what="limit")
        assert told == str(refused.value)


def test_a_key_of_the_most_characters_is_kept():
    assert "x" * 200 == key_of("{a}", (), {}, {"a": "x" * 200}, what="limit")


def test_an_argument_that_the_call_does_not_give_is_named():
    with pytest.raises(InvalidLimit) as refused:
        key_of("c:{a}", (), {}, {"b": 1}, what="unique")
    assert str(refused.value) == (
        "unique='c:{a}' asks for the argument 'a', which this call does not give. Give it by "
        "its name."
    )


def test_a_number_that_python_does_not_write_out_is_no_key():
    with pytest.raises(InvalidLimit, match="the key of limit could not be made: ValueError"):
        key_of("{a}", (), {}, {"a": 10**5000}, what="limit")


def test_what_a_function_raises_is_the_cause():
    def key(order: dict[str, int]) -> str:
        return str(order["customer"])

    with pytest.raises(InvalidLimit, match=r"could not be made: .* raised KeyError") as refused:
        key_of(key, ({},), {}, {}, what="limit")
    assert isinstance(refused.value.__cause__, KeyError)
    with pytest.raises(InvalidLimit, match=r"could not be made: .* raised TypeError"):
        key_of(key, (), {}, {}, what="limit")


def test_the_text_of_an_enum_is_kept_as_text():
    class Colour(str, enum.Enum):  # noqa: UP042 - whose str() is its name
        RED = "red"

    made = key_of(lambda: Colour.RED, (), {}, {}, what="limit")
    assert (str, "red") == (type(made), made)


printable = st.just(" ") | st.characters(exclude_categories=["C", "Z"])


@given(st.text(printable, min_size=1, max_size=LONGEST_KEY))
def test_a_made_key_is_always_one_that_a_row_can_keep(value):
    assert value.isprintable()
    assert value == key_of("{a}", (), {}, {"a": value}, what="limit")


# What a row keeps


def test_the_facts_are_the_numbers_of_the_call():
    made = Limit("c:{a}", size=2, rate="100/m", burst=5, when_busy="discard")
    expected = LimitFacts(key="c:7", size=2, every=0.6, burst=5, discard=True)
    assert expected == made.facts((7,), {}, {"a": 7})
    plain = LimitFacts(key="c:7", size=0, every=None, burst=1, discard=False)
    assert plain == Limit("c:{a}", size=0).facts((7,), {}, {"a": 7})
