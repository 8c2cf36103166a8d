"""What a schedule may say. croniter would take more, and other things than it seems."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django_jobs.exceptions import DjangoJobsError

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days of each month, at most
NAME_DAYS = "name the days, such as 28-31, and let the task look at the date"
OTHERS = (  # what other programs know
    (re.compile(r".*\?.*"), "write * instead"),
    (re.compile(r"(l(-[0-9]+|w)?|[0-9]+[lw]|[a-z0-9]+#.*)(/.*)?"), NAME_DAYS),
    (re.compile(r"[hr](\(.*\))?(/.*)?"), "write a number of your own choice"),
)
REBOOT = (
    "'@reboot' is no time: workers start at every deploy, on every host. Enqueue where the "
    "deploy is made"
)
PART = re.compile(r"(\*|(?P<low>[a-z0-9]+)(-(?P<high>[a-z0-9]+))?)(/(?P<step>[0-9]{1,2}))?")
MOST_CHARACTERS = 500


class InvalidSchedule(DjangoJobsError, ValueError):
    """A schedule that cannot be read, or that would never be due; the message says why."""


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five: what it is called, and which numbers it takes."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    first: int = 0  # the number of the first name

    @property
    def bounds(self) -> str:
        """Say what may stand in it."""
        named = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.least} to {self.most}{named}"


MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day of the month", 1, 31)
MONTH = Field("month", 1, 12, MONTHS, 1)
WEEKDAY = Field("day of the week", 0, 7, DAYS)  # 0 and 7 are Sunday
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


@dataclass(frozen=True, slots=True)
class Fields:
    """The numbers of each field; None: it is left open, as by ``*``.

    Where both the day of the month and that of the week are named, a day that is in either
    is one. A field that names all that it could is left open too.
    """

    minute: frozenset[int] | None
    hour: frozenset[int] | None
    day: frozenset[int] | None
    month: frozenset[int] | None
    weekday: frozenset[int] | None

    def __str__(self) -> str:
        """Write them in five fields of plain numbers."""
        return " ".join(
            "*" if numbers is None else ",".join(map(str, sorted(numbers)))
            for numbers in (self.minute, self.hour, self.day, self.month, self.weekday)
        )

    @property
    def is_every_hour(self) -> bool:
        """Whether no hour is named: then one hour is as good as another."""
        return self.hour is None

    @property
    def is_ever_due(self) -> bool:
        """Whether any year has such a day. A day of the week alone suffices."""
        if self.day is None or self.weekday is not None:
            return True
        months = self.month or range(1, 13)
        return min(self.day) <= max(LONGEST[month - 1] for month in months)


def parse(text: object) -> Fields:
    """Return what a schedule says; raise ``InvalidSchedule`` with the fault and the cure."""
    if not isinstance(text, str):
        raise InvalidSchedule("it must be text, such as '0 3 * * *'")
    if len(text) > MOST_CHARACTERS:
        raise InvalidSchedule(f"it has more than {MOST_CHARACTERS} characters")
    minute, hour, day, month, weekday = map(_numbers, _parts(text), FIELDS)
    if None not in (day, weekday) and (_is_full(day, DAY) or _is_full(weekday, WEEKDAY)):
        day = weekday = None  # either of them: every day
    fields = Fields(
        _open(minute, MINUTE),
        _open(hour, HOUR),
        _open(day, DAY),
        _open(month, MONTH),
        _open(weekday, WEEKDAY),
    )
    if not fields.is_ever_due:
        raise InvalidSchedule("no month that it names has such a day, so it is never due")
    return fields


def _parts(text: str) -> list[str]:
    """Return the five words."""
    words = text.strip(" \t").lower()
    if words.startswith("@"):
        if words == "@reboot":
            raise InvalidSchedule(REBOOT)
        if words not in NICKNAMES:
            raise InvalidSchedule(f"{words!r} is none of {', '.join(NICKNAMES)}")
        words = NICKNAMES[words]
    parts = re.split(r"[ \t]+", words) if words else []
    if len(parts) != len(FIELDS):
        more = " Seconds and years are not known here" if len(parts) > len(FIELDS) else ""
        raise InvalidSchedule(
            f"it has {len(parts)} fields and must have five: minute, hour, day of the month, "
            f"month, day of the week.{more}".rstrip(".")
        )
    return parts


def _open(numbers: frozenset[int] | None, field: Field) -> frozenset[int] | None:
    return None if _is_full(numbers, field) else numbers


def _is_full(numbers: frozenset[int] | None, field: Field) -> bool:
    """Tell whether a field names all that it could."""
    return numbers is not None and len(numbers) == _last(field) - field.least + 1


def _numbers(text: str, field: Field) -> frozenset[int] | None:
    if text in ("*", "*/1"):
        return None
    found: set[int] = set()
    for part in text.split(","):
        found.update(_part(part, field))
    if field is WEEKDAY:
        found = {number % 7 for number in found}
    return frozenset(found)


def _part(text: str, field: Field) -> range:
    """Read one part of a list: a number, a range, or every so many of either or of all."""
    match = PART.fullmatch(text)
    if match is None or any(other.fullmatch(text) for other, _ in OTHERS):
        raise InvalidSchedule(f"{text!r} cannot be read as {field.name}: {_cure(text, field)}")
    low, high, step = match["low"], match["high"], match["step"]
    if low is not None and high is None:
        if step is not None:
            raise InvalidSchedule(
                f"{text!r} has a step and no range: write {low}-{field.most}/{step}, or */{step}"
            )
        number = _number(low, field)
        return range(number, number + 1)
    start, end = (field.least, _last(field)) if low is None else _range(low, str(high), field)
    return range(start, end + 1, _step(step, text, field))


def _cure(text: str, field: Field) -> str:
    for other, cure in OTHERS:
        if other.fullmatch(text):
            return cure
    return (
        f"write a number from {field.bounds}, a range such as 1-5, a list such as 1,3 or a "
        "step such as */5"
    )


def _last(field: Field) -> int:
    """Return the last number that ``*`` stands for: Sunday is counted once."""
    return 6 if field is WEEKDAY else field.most


def _range(low: str, high: str, field: Field) -> tuple[int, int]:
    start, end = _number(low, field), _number(high, field)
    if start > end:
        first = f"{low}-{_last(field)}," if start <= _last(field) else ""
        raise InvalidSchedule(
            f"the range {low}-{high} of the {field.name} runs backwards: "
            f"write {first}{field.least}-{high}"
        )
    return start, end


def _step(text: str | None, part: str, field: Field) -> int:
    step = 1 if text is None else int(text)
    if not 1 <= step <= field.most:
        raise InvalidSchedule(f"the step of {part!r} must be from 1 to {field.most}")
    return step


def _number(text: str, field: Field) -> int:
    if text in field.names:
        return field.names.index(text) + field.first
    if text.isdecimal() and text.isascii() and len(text) <= 2:  # noqa: PLR2004 - digits
        number = int(text)
        if field.least <= number <= field.most:
            return number
    raise InvalidSchedule(f"{text!r} is no {field.name}: it goes from {field.bounds}")
