"""What follows a failed attempt: another one, and when, or the job's death.

Exception classes are known by their paths, so that a job's row can carry the
rule it was enqueued with: a deploy changes no job that waits.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from django_jobs.exceptions import RetryJob

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MAX_SECONDS: Final = 365 * 24 * 60 * 60
RETRY_ON: Final = ("builtins.Exception",)

Kind: TypeAlias = Literal["exponential", "linear", "constant"]
KINDS: Final = ("exponential", "linear", "constant")

_LONGEST_NAME: Final = 200
_DOUBLINGS: Final = 1000  # a float holds these; any cap is reached long before


# Delays


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after each attempt; made of numbers, so a row can hold it."""

    kind: Kind
    base: float
    cap: float
    jitter: float

    def __post_init__(self) -> None:
        """Refuse what would wait for ever, or for no one knows how long."""
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r} is no backoff; use one of {', '.join(KINDS)}.")
        at_once = self.kind == "constant"  # constant(0): the next attempt follows directly
        _check_seconds("base", self.base, zero=at_once)
        _check_seconds("cap", self.cap, zero=at_once)
        _check_jitter(self.jitter)
        if self.cap < self.base:
            raise ValueError(
                f"cap={self.cap} is below base={self.base}; give a cap of at least the base."
            )

    def delay(self, attempt: int, *, random: float) -> float:
        """Return the seconds after ``attempt`` (from 1); ``random`` is in [0, 1)."""
        return min(self.cap, self._raw(attempt)) * (1 + self.jitter * (2 * random - 1))

    def _raw(self, attempt: int) -> float:
        match self.kind:
            case "exponential":
                return self.base * 2.0 ** min(attempt - 1, _DOUBLINGS)
            case "linear":
                return self.base * attempt
            case "constant":
                return self.base


def exponential(base: float = 2, cap: float = 600, jitter: float = 0.25) -> Backoff:
    """Wait ``base`` seconds, then twice as long each time, at most ``cap``.

    ``jitter`` spreads each delay by that part of it to both sides, at the cap too.
    """
    return Backoff("exponential", base, cap, jitter)


def linear(base: float = 2, cap: float = 600, jitter: float = 0.25) -> Backoff:
    """Wait ``base`` seconds longer after each attempt, at most ``cap``."""
    return Backoff("linear", base, cap, jitter)


def constant(seconds: float, jitter: float = 0.25) -> Backoff:
    """Wait ``seconds`` after every attempt."""
    _check_seconds("seconds", seconds, zero=True)
    return Backoff("constant", seconds, seconds, jitter)


def _check_seconds(name: str, value: float, *, zero: bool) -> None:
    _check_number(name, value)
    if not 0 <= value <= MAX_SECONDS or (value == 0 and not zero):  # NaN is refused here too
        least = "from 0" if zero else "above 0"
        raise ValueError(
            f"{name}={value} is out of bounds; give seconds {least} and at most {MAX_SECONDS:,}."
        )


def _check_jitter(value: float) -> None:
    _check_number("jitter", value)
    if not 0 <= value <= 1:
        raise ValueError(
            f"jitter={value} is out of bounds; give a part from 0 to 1, as 0.25 for ±25 %."
        )


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}={value!r} is not a number; give an int or a float.")


# Classes by path


def class_name(cls: type) -> str:
    """Return the class's own name, whatever its metaclass says about names."""
    return str.__str__(type.__dict__["__name__"].__get__(cls))[:_LONGEST_NAME]


def class_path(cls: type) -> str:
    """Return the dotted path that retry rules and history know the class by."""
    qualname = str.__str__(type.__dict__["__qualname__"].__get__(cls))[:_LONGEST_NAME]
    try:
        module = type.__dict__["__module__"].__get__(cls)
    except AttributeError:  # a class can be made without a module, or lose it
        return qualname
    return f"{str.__str__(module)}.{qualname}" if issubclass(type(module), str) else qualname


def matches(error: BaseException, paths: Collection[str]) -> bool:
    """Whether the error's class, or one that it inherits from, is in ``paths``."""
    mro: tuple[type, ...] = type.__dict__["__mro__"].__get__(type(error))
    return any(class_path(cls) in paths for cls in mro)


# The decision


@dataclass(frozen=True, slots=True)
class Retry:
    """Run another attempt ``after`` seconds; None: as the backoff says."""

    after: float | None = None


@dataclass(frozen=True, slots=True)
class Die:
    """Run no more; ``attempts``: they are used up, ``gave_up``: more would not help."""

    reason: Literal["attempts", "gave_up"]


def decide(
    error: BaseException,
    *,
    attempt: int,
    max_attempts: int,
    retry_on: Sequence[str] | None,
    give_up_on: Sequence[str],
) -> Retry | Die:
    """Say what follows ``error``, raised by attempt number ``attempt``.

    A ``RetryJob`` is the task's own word and asks no list; else ``give_up_on``
    wins over ``retry_on``, of which None means every ``Exception``. An exception
    group counts as its own class, not as what is in it.
    """
    asked = issubclass(type(error), RetryJob)
    if not asked and not _worth_another(
        error, RETRY_ON if retry_on is None else retry_on, give_up_on
    ):
        return Die("gave_up")
    if attempt >= max_attempts:
        return Die("attempts")
    return Retry(_seconds(error) if asked else None)


def _worth_another(
    error: BaseException, retry_on: Sequence[str], give_up_on: Sequence[str]
) -> bool:
    return matches(error, retry_on) and not matches(error, give_up_on)


def _seconds(error: BaseException) -> float | None:
    """Read the delay of a RetryJob; what is no delay leaves it to the backoff."""
    after: Any = None
    with suppress(Exception):  # a subclass may have made a property of it
        after = getattr(error, "after", None)
    if isinstance(after, timedelta):
        after = after.total_seconds()
    if isinstance(after, bool) or not isinstance(after, (int, float)):
        return None
    delay = float(min(max(after, 0), MAX_SECONDS))
    return None if math.isnan(delay) else delay
