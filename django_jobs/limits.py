"""How many jobs of one key may run at a time in the whole fleet, and how fast they start."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Literal

from django_jobs.exceptions import InvalidLimit

RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
LONGEST_KEY = 200
LARGEST = 1_000_000  # of a size or a burst
BUSY = ("wait", "discard")

KEY_CURE = (
    "Give a text with names of arguments in braces, such as 'customer:{customer_id}', or a "
    "function of the task's arguments that returns the text."
)
MADE_CURE = f"Make it printable text of 1 to {LONGEST_KEY} characters."
SIZE_CURE = f"Give a whole number from 0 to {LARGEST:,}; 0 stops the key."
RATE_CURE = "Give a whole number, '/' and one of s, m, h and d, such as '100/m'."
BURST_CURE = f"Give a whole number from 1 to {LARGEST:,}."
BUSY_CURE = "Say 'wait' or 'discard'."


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFacts:
    """What a job's row keeps of its limit; ``every`` is the time between two starts."""

    key: str
    size: int | None
    every: float | None  # seconds
    burst: int
    discard: bool


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``size`` jobs of a key at a time, and no more starts than ``rate`` says.

    ``key``: a text with the names of arguments in braces, ``"customer:{customer_id}"``, or a
    function that takes the task's arguments and returns the text. ``rate``: ``"100/m"``;
    ``burst`` of them may start at once. ``size=0`` stops the key. A job that may not start
    waits, or with ``when_busy="discard"`` is cancelled. Raises ``InvalidLimit``.
    """

    key: str | Callable[..., str]
    size: int | None = None
    rate: str | None = None
    burst: int = 1
    when_busy: Literal["wait", "discard"] = "wait"

    def __post_init__(self) -> None:
        """Refuse what could never be obeyed."""
        if not callable(self.key):
            names_in(self.key, "key")
        if self.size is None and self.rate is None:
            raise InvalidLimit("Limit(…) says neither size nor rate. Say one of them, or both.")
        if self.size is not None and not _is_whole(self.size, 0):
            raise _refused("size", self.size, SIZE_CURE)
        if self.rate is not None and not _is_rate(self.rate):
            raise _refused("rate", self.rate, RATE_CURE)
        if not _is_whole(self.burst, 1):
            raise _refused("burst", self.burst, BURST_CURE)
        if self.burst > 1 and self.rate is None:
            raise _refused("burst", self.burst, "Say a rate too, which alone has a burst.")
        if self.when_busy not in BUSY:
            raise _refused("when_busy", self.when_busy, BUSY_CURE)

    @property
    def every(self) -> float | None:
        """The seconds between two starts; None: no rate."""
        if self.rate is None:
            return None
        count, _, unit = self.rate.partition("/")
        return UNITS[unit] / int(count)

    def facts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], given: Mapping[str, Any]
    ) -> LimitFacts:
        """Return what a job of this call keeps; ``given``: its arguments by name.

        Raises ``InvalidLimit`` when the key cannot be made.
        """
        return LimitFacts(
            key=key_of(self.key, args, kwargs, given, what="limit"),
            size=self.size,
            every=self.every,
            burst=self.burst,
            discard=self.when_busy == "discard",
        )


def key_of(
    key: str | Callable[..., str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    what: str,
) -> str:
    """Return the key of one call; ``what`` names the option in an error."""
    made = _called(key, args, kwargs, what) if callable(key) else _filled(key, given, what)
    if not isinstance(made, str) or not 0 < len(made) <= LONGEST_KEY or not made.isprintable():
        raise _refused(f"the key of {what}", made, MADE_CURE)
    return str.__str__(made)  # an enum's text would be written as its name


def _called(
    key: Callable[..., str], args: Sequence[Any], kwargs: Mapping[str, Any], what: str
) -> object:
    try:
        return key(*args, **kwargs)
    except Exception as error:
        raise InvalidLimit(
            f"the key of {what} could not be made: its function raised {error!r:.120}. It is "
            "called with the job's arguments as they were given, without the context."
        ) from error


def _filled(key: str, given: Mapping[str, Any], what: str) -> str:
    try:
        return key.format_map(given)
    except KeyError as error:
        raise InvalidLimit(
            f"{what}={key!r:.120} asks for the argument {error.args[0]!r:.120}, which this call "
            "does not give. Give it by its name."
        ) from None
    except Exception as error:  # such as a number that Python does not write out
        raise InvalidLimit(f"the key of {what} could not be made: {error!r:.120}.") from error


def names_in(key: object, where: str) -> list[str]:
    """Return the names of arguments in a key; refuse what is no such text."""
    if not isinstance(key, str) or not key:
        raise _refused(where, key, KEY_CURE)
    try:
        parts = list(Formatter().parse(key))
    except ValueError as error:
        raise InvalidLimit(
            f"{where} is {key!r:.120}, which cannot be read: {error}. Write {{{{ and }}}} for "
            "braces that mean themselves."
        ) from None
    literal = "".join(text for text, *_ in parts)
    if len(literal) > LONGEST_KEY or not literal.isprintable():
        raise _refused(where, key, MADE_CURE)
    return [_plain(part, key, where) for part in parts if part[1] is not None]


def _plain(part: tuple[str, str | None, str | None, str | None], key: str, where: str) -> str:
    """Return the name in one pair of braces; what Python could put beside it is no part of it."""
    _, name, form, conversion = part
    if not name or not name.isidentifier() or form or conversion:
        asked = f"{name}{'!' if conversion else ''}{conversion or ''}{':' if form else ''}{form}"
        raise InvalidLimit(
            f"{where} is {key!r:.120}, which asks for {{{asked}}}. Put nothing but names of "
            "arguments in braces, or give a function that returns the text."
        )
    return name


def _refused(where: str, value: object, cure: str) -> InvalidLimit:
    return InvalidLimit(f"{where} is {value!r:.120}. {cure}")


def _is_whole(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= LARGEST


def _is_rate(value: object) -> bool:
    return isinstance(value, str) and RATE.fullmatch(value) is not None
