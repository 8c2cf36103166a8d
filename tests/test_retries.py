from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_jobs.exceptions import RetryJob
from django_jobs.retries import (
    MAX_SECONDS,
    Backoff,
    Die,
    Retry,
    class_name,
    class_path,
    constant,
    decide,
    exponential,
    linear,
    matches,
)

attempts = st.integers(1, 1000)
randoms = st.floats(0, 1, exclude_max=True)
seconds = st.floats(1e-9, MAX_SECONDS)
pairs = st.tuples(seconds, seconds).map(sorted)


class Timeout(OSError):
    pass


class OwnBase(BaseException):
    pass


def ruling(error: BaseException, **changes: Any) -> Retry | Die:
    rule: dict[str, Any] = {"attempt": 1, "max_attempts": 3, "retry_on": None, "give_up_on": ()}
    return decide(error, **rule | changes)


# Delays


def test_exponential_doubles_up_to_its_cap() -> None:
    backoff = exponential(base=2, cap=60, jitter=0)

    assert [2, 4, 8, 16, 32, 60, 60] == [backoff.delay(n, random=0.5) for n in range(1, 8)]


def test_linear_adds_its_base_up_to_its_cap() -> None:
    backoff = linear(base=10, cap=35, jitter=0)

    assert [10, 20, 30, 35, 35] == [backoff.delay(n, random=0.5) for n in range(1, 6)]


def test_constant_stays() -> None:
    backoff = constant(7, jitter=0)

    assert {7} == {backoff.delay(n, random=0.5) for n in range(1, 6)}


@pytest.mark.parametrize("attempt", [1, 3, 500])
@pytest.mark.parametrize("backoff", [exponential(), linear(), constant(30)])
def test_default_jitter_spreads_by_a_fifth_at_least_also_at_the_cap(
    backoff: Backoff, attempt: int
) -> None:
    delays = [backoff.delay(attempt, random=step / 1000) for step in range(1000)]
    middle = backoff.delay(attempt, random=0.5)

    assert min(delays) <= 0.8 * middle
    assert max(delays) >= 1.2 * middle
    assert sum(delays) / len(delays) == pytest.approx(middle, rel=0.01)


@given(st.sampled_from(["exponential", "linear"]), pairs, st.floats(0, 1), attempts, randoms)
def test_delay_is_bounded_for_every_attempt(
    kind: Any, bounds: list[float], jitter: float, attempt: int, random: float
) -> None:
    base, cap = bounds
    backoff = Backoff(kind, base, cap, jitter)

    assert 0 <= backoff.delay(attempt, random=random) <= cap * (1 + jitter)
    plain = Backoff(kind, base, cap, 0)
    assert base <= plain.delay(attempt, random=random) <= plain.delay(attempt + 1, random=random)


def test_a_huge_attempt_does_not_overflow() -> None:
    assert MAX_SECONDS == exponential(MAX_SECONDS, MAX_SECONDS, 0).delay(10**6, random=0.5)
    assert exponential(jitter=0).delay(1000, random=0.5) == 600


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), MAX_SECONDS + 1])
def test_seconds_out_of_bounds_are_refused(value: float) -> None:
    message = f"={value} is out of bounds; give seconds above 0 and at most 31,536,000."

    with pytest.raises(ValueError, match=f"^base{message}$"):
        exponential(base=value)
    with pytest.raises(ValueError, match=f"^cap{message}$"):
        linear(cap=value)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), MAX_SECONDS + 1])
def test_a_constant_wait_out_of_bounds_is_refused(value: float) -> None:
    message = f"^seconds={value} is out of bounds; give seconds from 0 and at most 31,536,000.$"

    with pytest.raises(ValueError, match=message):
        constant(value)


def test_a_constant_wait_of_nothing_retries_at_once() -> None:
    assert constant(0).delay(1, random=0.9) == 0


@pytest.mark.parametrize("value", [True, "2", None, timedelta(seconds=2), 2j])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^base=.* is not a number; give an int or a float\.$"):
        exponential(base=value)
    with pytest.raises(TypeError, match=r"^jitter=.* is not a number"):
        constant(1, jitter=value)


@pytest.mark.parametrize("value", [-0.1, 1.1, 25, float("nan")])
def test_jitter_is_a_part_of_the_delay(value: float) -> None:
    with pytest.raises(ValueError, match=r"^jitter=.* give a part from 0 to 1"):
        exponential(jitter=value)


def test_cap_below_base_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^cap=5 is below base=10; give a cap of at least"):
        exponential(base=10, cap=5)


def test_unknown_kind_is_refused() -> None:
    kind: Any = "random"

    with pytest.raises(ValueError, match=r"^kind='random' is no backoff; use one of exponential"):
        Backoff(kind, 1, 1, 0)


# Classes by path


def test_class_path_is_where_the_class_was_made() -> None:
    assert "builtins.OSError" == class_path(IOError)
    assert "tests.test_retries.Timeout" == class_path(Timeout)
    assert "asyncio.exceptions.CancelledError" == class_path(asyncio.CancelledError)


def test_class_path_reads_past_a_hostile_metaclass() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(name)

    odd = Meta("Odd", (Exception,), {"__module__": "shop", "__qualname__": "Outer.Odd"})

    assert "shop.Outer.Odd" == class_path(odd)
    assert "Odd" == class_name(odd)
    assert matches(odd(), ["builtins.Exception"])


def test_class_path_of_a_class_without_a_module() -> None:
    assert "Odd" == class_path(type("Odd", (Exception,), {"__module__": 5}))
    assert "x" * 200 == class_name(type("x" * 5000, (), {}))


def test_matches_the_class_and_what_it_inherits_from() -> None:
    error = Timeout()

    assert matches(error, ["tests.test_retries.Timeout"])
    assert matches(error, ["builtins.OSError", "builtins.KeyError"])
    assert matches(error, ["builtins.BaseException"])
    assert not matches(error, ["builtins.KeyError", "Timeout"])
    assert not matches(error, [])


def test_what_an_error_says_about_its_class_does_not_count() -> None:
    class Pretender(Exception):
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            return Timeout

    assert not matches(Pretender(), ["builtins.OSError"])


# The decision


@pytest.mark.parametrize("error", [ValueError(), Timeout(), ExceptionGroup("", [OSError()])])
def test_every_exception_is_retried_unless_told_otherwise(error: Exception) -> None:
    assert Retry(None) == ruling(error)
    assert Retry(None) == ruling(error, attempt=2)
    assert Die("attempts") == ruling(error, attempt=3)
    assert Die("attempts") == ruling(error, attempt=4)


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        OwnBase(),
        BaseExceptionGroup("", [OwnBase()]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_exception_is_given_up_unless_named(error: BaseException) -> None:
    named = [class_path(type(error))]

    assert Die("gave_up") == ruling(error)
    assert Retry(None) == ruling(error, retry_on=named)
    assert Retry(None) == ruling(error, retry_on=["builtins.BaseException"])
    assert Die("attempts") == ruling(error, retry_on=named, attempt=3)


def test_only_what_retry_on_names_is_retried() -> None:
    assert Retry(None) == ruling(Timeout(), retry_on=["builtins.OSError"])
    assert Die("gave_up") == ruling(ValueError(), retry_on=["builtins.OSError"])
    assert Die("gave_up") == ruling(ValueError(), retry_on=[])


def test_give_up_on_wins_over_retry_on() -> None:
    rule = {"retry_on": ["builtins.OSError"], "give_up_on": ["tests.test_retries.Timeout"]}

    assert Die("gave_up") == ruling(Timeout(), **rule)
    assert Retry(None) == ruling(OSError(), **rule)
    assert Die("gave_up") == ruling(Timeout(), attempt=3, **rule)


def test_a_group_is_matched_by_its_own_class_not_by_its_children() -> None:
    group = ExceptionGroup("", [Timeout()])

    assert Die("gave_up") == ruling(group, retry_on=["builtins.OSError"])
    assert Retry(None) == ruling(group, give_up_on=["builtins.OSError"])
    assert Retry(None) == ruling(group, retry_on=["builtins.ExceptionGroup"])


def test_retry_job_asks_no_list_and_uses_an_attempt() -> None:
    class Busy(RetryJob):
        pass

    rule = {"retry_on": [], "give_up_on": ["builtins.Exception"]}

    assert Retry(None) == ruling(RetryJob(), **rule)
    assert Retry(5.0) == ruling(RetryJob(after=5), **rule)
    assert Retry(90.0) == ruling(Busy(after=timedelta(minutes=1.5)), **rule)
    assert Retry(0.0) == ruling(RetryJob(after=0), **rule)
    assert Die("attempts") == ruling(RetryJob(after=5), attempt=3, **rule)


@pytest.mark.parametrize(
    ("after", "delay"),
    [
        (-5, 0.0),
        (float("inf"), float(MAX_SECONDS)),
        (10**400, float(MAX_SECONDS)),
        (float("nan"), None),
        ("soon", None),
        (True, None),
    ],
    ids=["negative", "infinite", "huge", "nan", "text", "bool"],
)
def test_a_delay_that_is_none_never_reaches_the_database(after: Any, delay: float | None) -> None:
    error = RetryJob()
    error.after = after

    assert Retry(delay) == ruling(error)


def test_a_retry_job_whose_delay_cannot_be_read_waits_for_the_backoff() -> None:
    class Odd(RetryJob):
        @property
        def after(self) -> float:
            raise RuntimeError

        @after.setter
        def after(self, value: object) -> None:
            pass

    assert Retry(None) == ruling(Odd())
