"""What a value of an option may be, and the error that says what it is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured

from django_jobs.exceptions import DjangoJobsError, InvalidRequires

T = TypeVar("T")

MOST = 1000  # of leases, slots, weights and attempts
LONGEST = 30 * 86_400.0  # a longer time is a slip: a number of milliseconds, a date
LARGEST = 256 * 1024 * 1024  # PostgreSQL refuses a text of 1 GB, and escapes take room
SHOWN = 120  # characters of a value in a message
QUEUE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
QUEUE_RULE = "the name of a queue is 1 to 100 characters of letters, digits, '_', '-' and '.'"


class InvalidOption(DjangoJobsError, ImproperlyConfigured):
    """A value that cannot be used; it knows where it stands and what cures it."""

    def __init__(self, where: str, value: object, cure: str, *, code: str = "E003") -> None:
        """``where`` is the setting or flag as it is written, ``cure`` an imperative."""
        self.where = where
        self.value = value
        self.others: Sequence[InvalidOption] = ()  # more that is wrong with the same option
        self.cure = cure
        self.code = code
        super().__init__(f"{self.fault} {cure}")

    @property
    def fault(self) -> str:
        """What is wrong, without the cure."""
        return f"{self.where} is {shown(self.value)}."


def shown(value: object) -> str:
    """Return ``value`` as it is written, cut to what fits in a message."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def whole(value: object, where: str, least: int, most: int, *, code: str = "E003") -> int:
    """Return ``value`` when it is a whole number within the bounds; ``True`` is none."""
    if type(value) is not int or not least <= value <= most:
        cure = f"Set it to a whole number from {least} to {most:,}."
        raise InvalidOption(where, value, cure, code=code)
    return value


def seconds(value: object, where: str, least: float, most: float, *, code: str = "E003") -> float:
    """Return ``value`` when it is a number of seconds within the bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidOption(where, value, "Set it to a number of seconds.", code=code)
    if not least <= value <= most:  # which NaN is not
        cure = f"Set it to a number of seconds from {least:g} to {most:,.0f}."
        raise InvalidOption(where, value, cure, code=code)
    return float(value)


def fitting(check: Callable[[object, str], T], value: object, where: str) -> T:
    """Return what a check of requirements makes of ``value``."""
    try:
        return check(value, where)
    except InvalidRequires as error:
        raise InvalidOption(error.where, error.value, error.cure) from None


def is_queue_name(name: object) -> bool:
    """Tell whether ``name`` can name a queue."""
    return isinstance(name, str) and QUEUE_NAME.fullmatch(name) is not None


def queue_names(value: object, where: str) -> list[str]:
    """Return the names that ``QUEUES`` lists, each once."""
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise InvalidOption(
            where, value, "Set it to a list of names; [] means any name.", code="E008"
        )
    for name in value:
        if not is_queue_name(name):
            raise InvalidOption(where, value, f"Rename {name!r}: {QUEUE_RULE}.", code="E008")
    return list(dict.fromkeys(value))


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `` Did you mean …?``, or nothing when nothing is near."""
    close = get_close_matches(str(name).lower(), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
