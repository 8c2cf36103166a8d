"""What a schedule may say, what each fault is told, and that croniter reads it alike."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from django_jobs.cron import NICKNAMES, Cron, Fields, InvalidSchedule, parse
from django_jobs.cron.grammar import FIELDS


def said(**numbers: set[int]) -> Fields:
    """Return fields that are left open but for ``numbers``."""
    names = ("minute", "hour", "day", "month", "weekday")
    return Fields(*(frozenset(numbers[name]) if name in numbers else None for name in names))


GOOD: list[tuple[str, Fields]] = [
    ("* * * * *", said()),
    ("*/1 */1 */1 */1 */1", said()),
    ("0-59 0-23 1-31 1-12 0-6", said()),
    ("0-59/1 * * * 0-7", said()),
    ("0 3 * * *", said(minute={0}, hour={3})),
    ("00 03 * * *", said(minute={0}, hour={3})),
    ("  0 3 * * *  ", said(minute={0}, hour={3})),
    ("0\t3 \t* * *", said(minute={0}, hour={3})),
    ("*/15 * * * *", said(minute={0, 15, 30, 45})),
    ("*/7 * * * *", said(minute={0, 7, 14, 21, 28, 35, 42, 49, 56})),
    ("*/59 * * * *", said(minute={0, 59})),
    ("5-20/5 * * * *", said(minute={5, 10, 15, 20})),
    ("1,1,2 * * * *", said(minute={1, 2})),
    ("1-3,30,50-52/2 * * * *", said(minute={1, 2, 3, 30, 50, 52})),
    ("0 */23 * * *", said(minute={0}, hour={0, 23})),
    ("0 9-17 * * mon-fri", said(minute={0}, hour=set(range(9, 18)), weekday={1, 2, 3, 4, 5})),
    ("0 0 * * MON-FRI", said(minute={0}, hour={0}, weekday={1, 2, 3, 4, 5})),
    ("0 0 * * Sun,Wed", said(minute={0}, hour={0}, weekday={0, 3})),
    ("0 0 * * 7", said(minute={0}, hour={0}, weekday={0})),
    ("0 0 * * 5-7", said(minute={0}, hour={0}, weekday={0, 5, 6})),
    ("0 0 * * 0,7", said(minute={0}, hour={0}, weekday={0})),
    ("0 0 * * */2", said(minute={0}, hour={0}, weekday={0, 2, 4, 6})),
    ("0 0 * jan *", said(minute={0}, hour={0}, month={1})),
    ("0 0 * Jan-mar,12 *", said(minute={0}, hour={0}, month={1, 2, 3, 12})),
    ("0 0 1 */3 *", said(minute={0}, hour={0}, day={1}, month={1, 4, 7, 10})),
    ("0 0 13 * 5", said(minute={0}, hour={0}, day={13}, weekday={5})),
    ("0 0 31 * *", said(minute={0}, hour={0}, day={31})),
    ("0 0 29 2 *", said(minute={0}, hour={0}, day={29}, month={2})),
    ("0 0 28-31 2 *", said(minute={0}, hour={0}, day={28, 29, 30, 31}, month={2})),
    ("0 0 31 2,3 *", said(minute={0}, hour={0}, day={31}, month={2, 3})),
    ("48 14 31 6 0", said(minute={48}, hour={14}, day={31}, month={6}, weekday={0})),
    ("0 0 1-31 * 1", said(minute={0}, hour={0})),  # either: every day
    ("0 0 13 * 0-6", said(minute={0}, hour={0})),
    ("@yearly", said(minute={0}, hour={0}, day={1}, month={1})),
    ("@annually", said(minute={0}, hour={0}, day={1}, month={1})),
    ("@monthly", said(minute={0}, hour={0}, day={1})),
    ("@weekly", said(minute={0}, hour={0}, weekday={0})),
    ("@daily", said(minute={0}, hour={0})),
    ("@Midnight ", said(minute={0}, hour={0})),
    ("@hourly", said(minute={0})),
]

READ = "write a number from {}, a range such as 1-5, a list such as 1,3 or a step such as */5"
MINUTES = READ.format("0 to 59")
DAYS_CURE = "name the days, such as 28-31, and let the task look at the date"
NEVER = "no month that it names has such a day, so it is never due"
BAD: list[tuple[object, str]] = [
    (None, "it must be text, such as '0 3 * * *'"),
    (5, "it must be text"),
    (b"* * * * *", "it must be text"),
    ("", "it has 0 fields and must have five"),
    (" ", "it has 0 fields and must have five"),
    ("* * * *", "it has 4 fields and must have five: minute, hour, day of the month, month"),
    ("0 * * * * *", "it has 6 fields and must have five"),
    ("0 0 * * * *", "Seconds and years are not known here"),
    ("0 0 1 1 * 2027 *", "it has 7 fields and must have five"),
    ("@reboot", "'@reboot' is no time: workers start at every deploy, on every host. Enqueue"),
    ("@fortnightly", "'@fortnightly' is none of @yearly, @annually, @monthly, @weekly, @daily"),
    ("@daily *", "'@daily *' is none of"),
    ("60 * * * *", "'60' is no minute: it goes from 0 to 59"),
    ("0 24 * * *", "'24' is no hour: it goes from 0 to 23"),
    ("0 0 0 * *", "'0' is no day of the month: it goes from 1 to 31"),
    ("0 0 32 * *", "'32' is no day of the month"),
    ("0 0 * 0 *", "'0' is no month: it goes from 1 to 12, or jan to dec"),
    ("0 0 * 13 *", "'13' is no month"),
    ("0 0 * * 8", "'8' is no day of the week: it goes from 0 to 7, or sun to sat"),
    ("100 * * * *", "'100' is no minute"),
    ("-1 * * * *", f"'-1' cannot be read as minute: {MINUTES}"),
    ("1.5 * * * *", "'1.5' cannot be read as minute"),
    ("+5 * * * *", "'+5' cannot be read as minute"),
    ("*/0 * * * *", "the step of '*/0' must be from 1 to 59"),
    ("*/60 * * * *", "the step of '*/60' must be from 1 to 59"),
    ("0-30/0 * * * *", "the step of '0-30/0' must be from 1 to 59"),
    ("*/-5 * * * *", "'*/-5' cannot be read as minute"),
    ("*/ * * * *", "'*/' cannot be read as minute"),
    ("0 0/2 * * *", "'0/2' has a step and no range: write 0-23/2, or */2"),
    ("30-10 * * * *", "the range 30-10 of the minute runs backwards: write 30-59,0-10"),
    ("0 22-2 * * *", "the range 22-2 of the hour runs backwards: write 22-23,0-2"),
    ("0 0 * * fri-mon", "the range fri-mon of the day of the week runs backwards"),
    ("0 0 * * 7-2", "the range 7-2 of the day of the week runs backwards: write 0-2"),
    ("0 0 * nov-feb *", "runs backwards: write nov-12,1-feb"),
    ("1-2-3 * * * *", "'1-2-3' cannot be read as minute"),
    ("1- * * * *", "'1-' cannot be read as minute"),
    ("1,,2 * * * *", "'' cannot be read as minute"),
    ("1, * * * *", "'' cannot be read as minute"),
    ("** * * * *", "'**' cannot be read as minute"),
    ("*-5 * * * *", "'*-5' cannot be read as minute"),
    ("0 0 * monday *", "'monday' is no month"),
    ("0 0 * * monday", "'monday' is no day of the week"),
    ("0 0 * * jan", "'jan' is no day of the week"),
    ("mon * * * *", "'mon' is no minute"),
    ("0 0 ? * *", "'?' cannot be read as day of the month: write * instead"),
    ("0 0 L * *", f"'l' cannot be read as day of the month: {DAYS_CURE}"),
    ("0 0 L-3 * *", f"'l-3' cannot be read as day of the month: {DAYS_CURE}"),
    ("0 0 LW * *", f"'lw' cannot be read as day of the month: {DAYS_CURE}"),
    ("0 0 15W * *", f"'15w' cannot be read as day of the month: {DAYS_CURE}"),
    ("0 0 * * 5#3", f"'5#3' cannot be read as day of the week: {DAYS_CURE}"),
    ("0 0 * * fri#1", f"'fri#1' cannot be read as day of the week: {DAYS_CURE}"),
    ("0 0 * * 5L", f"'5l' cannot be read as day of the week: {DAYS_CURE}"),
    ("H * * * *", "'h' cannot be read as minute: write a number of your own choice"),
    ("H/15 * * * *", "'h/15' cannot be read as minute: write a number of your own choice"),
    ("R * * * *", "'r' cannot be read as minute: write a number of your own choice"),
    ("R(0-9) * * * *", "'r(0-9)' cannot be read as minute: write a number of your own choice"),
    ("٣ * * * *", "'٣' cannot be read as minute"),
    ("１ * * * *", "'１' cannot be read as minute"),  # noqa: RUF001 - full width
    ("0 3 * * *\n", "cannot be read as day of the week"),
    ("0 3\xa0* * *", "it has 4 fields"),
    ("0 3 * * *\0", "cannot be read as day of the week"),
    ("0 0 31 2 *", NEVER),
    ("0 0 30 2 *", NEVER),
    ("0 0 30-31 feb *", NEVER),
    ("0 0 31 4,6,9,11 *", NEVER),
    ("0 0 31 apr *", NEVER),
    ("1," * 250 + "1 * * * *", "it has more than 500 characters"),
]


@pytest.mark.parametrize(("text", "fields"), GOOD)
def test_what_is_valid_says_these_numbers(text: str, fields: Fields) -> None:
    assert fields == parse(text)


@pytest.mark.parametrize(("text", "words"), BAD)
def test_what_is_invalid_is_refused_with_the_fault_and_the_cure(text: object, words: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse(text)
    assert words in str(caught.value)


def test_more_than_sixty_expressions_are_tried() -> None:
    assert 60 <= len({text for text, _ in GOOD}) + len({str(text) for text, _ in BAD})


@pytest.mark.parametrize("name", sorted(NICKNAMES))
def test_a_nickname_is_what_it_stands_for(name: str) -> None:
    assert parse(NICKNAMES[name]) == parse(name)


# Whatever it accepts.


def numbers(field: int) -> st.SearchStrategy[str]:
    """Numbers of a field, some by name."""
    found = FIELDS[field]
    written = st.integers(found.least, found.most).map(str)
    return written | st.sampled_from(found.names) if found.names else written


@st.composite
def part(draw: st.DrawFn, field: int) -> str:
    """One part of a list."""
    found = FIELDS[field]
    low = draw(st.integers(found.least, found.most))
    high = draw(st.integers(low, found.most))
    step = draw(st.integers(1, found.most))
    return draw(
        st.sampled_from(["*", f"*/{step}", f"{low}-{high}", f"{low}-{high}/{step}"])
        | numbers(field)
    )


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Expressions in all that the grammar has, of which few are never due."""
    wide = st.booleans()
    return " ".join(
        "*" if draw(wide) else ",".join(draw(st.lists(part(field), min_size=1, max_size=3)))
        for field in range(5)
    )


def day(text: str) -> datetime:
    """Read a day; Hypothesis wants times without a zone."""
    return datetime.fromisoformat(text)


times = st.datetimes(day("2000-01-01"), day("2080-01-01")).map(
    lambda at: at.replace(microsecond=0)
)
UTC = ZoneInfo("UTC")


def read(text: str) -> Cron:
    """Return a schedule in UTC; one that is never due is no example."""
    try:
        return Cron.read(text, UTC)
    except InvalidSchedule:
        reject()
        raise


@given(expressions(), times)
@example("0 0 13 * 0-6", day("2026-01-01"))
@example("0 0 1-31 * 1", day("2026-01-01"))
@example("0 0 */2 * 1", day("2026-01-01"))
@example("0 0 * * 0-7", day("2026-01-01"))
@example("* * * 2-2 *", day("2026-01-01"))  # croniter's own reading is another
@example("0 0 29 2 *", day("2096-03-01"))
def test_the_times_are_those_that_the_fields_name(text: str, start: datetime) -> None:
    """An oracle of the test's own: day by day, then hour by hour and minute by minute."""
    cron = read(text)
    at = start.replace(tzinfo=UTC)
    for found in cron.upcoming(at, 4):
        assert next_of(cron.fields, at) == found
        at = found


def next_of(fields: Fields, at: datetime) -> datetime:
    """Return the first time after ``at`` that the fields name."""
    day = at.replace(hour=0, minute=0, second=0)
    while True:
        if is_day(fields, day):
            for hour in sorted(fields.hour or range(24)):
                for minute in sorted(fields.minute or range(60)):
                    if (found := day.replace(hour=hour, minute=minute)) > at:
                        return found
        day += timedelta(days=1)


def is_day(fields: Fields, at: datetime) -> bool:
    """Tell whether a day is one: either of the two where both are named."""
    day = fields.day is None or at.day in fields.day
    weekday = fields.weekday is None or at.isoweekday() % 7 in fields.weekday
    both = fields.day is not None and fields.weekday is not None
    month = fields.month is None or at.month in fields.month
    return month and (day or weekday if both else day and weekday)


@given(expressions(), times)
def test_next_and_previous_are_inverse(text: str, start: datetime) -> None:
    cron, at = read(text), start.replace(tzinfo=UTC)
    later = cron.after(at)
    assert at < later
    assert cron.latest(at) <= at
    assert later == cron.latest(later)
    assert later == cron.after(cron.latest(at))
    assert cron.latest(at) == cron.before(later)
    assert later == cron.after(later - timedelta(microseconds=1))


@given(st.text(alphabet="0123456789*/-,?LW#HR@ \t\nabcmonjan", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidSchedule):
        Cron.read(text, UTC).after(datetime(2026, 1, 1, tzinfo=UTC))


def test_both_days_named_means_either() -> None:
    """The 13th, and every Friday, as the oldest of these programs has it."""
    due = Cron.read("0 2 13 * 5", UTC).upcoming(datetime(2026, 3, 1, tzinfo=UTC), 6)
    assert ["03-06", "03-13", "03-20", "03-27", "04-03", "04-10"] == [f"{at:%m-%d}" for at in due]


def test_a_day_that_never_comes_leaves_the_weekday() -> None:
    due = Cron.read("48 14 31 6 0", UTC).upcoming(datetime(2026, 6, 1, tzinfo=UTC), 4)
    assert ["06-07", "06-14", "06-21", "06-28"] == [f"{at:%m-%d}" for at in due]


def test_a_step_over_all_days_counts_as_naming_them() -> None:
    """``*/2`` is not ``*``: odd days, and Mondays too."""
    due = Cron.read("0 0 */2 * 1", UTC).upcoming(datetime(2026, 6, 5, tzinfo=UTC), 4)
    assert ["06-07", "06-08", "06-09", "06-11"] == [f"{at:%m-%d}" for at in due]
