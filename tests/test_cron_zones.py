"""When schedules are due where the clocks are changed: a table written by hand, and an oracle."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from django_jobs.cron import Cron

UTC = ZoneInfo("UTC")
ROME, ADELAIDE = "Europe/Rome", "Australia/Adelaide"
NEW_YORK, LORD_HOWE, APIA = "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"
AZORES, KATHMANDU, MOSCOW = "Atlantic/Azores", "Asia/Kathmandu", "Europe/Moscow"


def at(text: str) -> datetime:
    """Read a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# Expression, zone, after when, when it fires next and next again, and by which rule; all in UTC.
TABLE: list[tuple[str, str, str, list[str], str]] = [
    # Rome: 29 March 2026 at 01:00 UTC the clocks go from 2 to 3; 25 October from 3 back to 2.
    ("30 2 * * *", ROME, "2026-03-27 12:00",
     ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"],
     "half past two does not come: due once, the moment after; the next day as ever"),
    ("0 2 * * *", ROME, "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:00"],
     "two does not come either: three does, the same moment"),
    ("0 3 * * *", ROME, "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 01:00"],
     "three comes, an hour earlier than yesterday"),
    ("30 2,3 * * *", ROME, "2026-03-28 12:00",
     ["2026-03-29 01:00", "2026-03-29 01:30", "2026-03-30 00:30"],
     "the one that is skipped and the one that is not"),
    ("*/15 * * * *", ROME, "2026-03-29 00:40",
     ["2026-03-29 00:45", "2026-03-29 01:00", "2026-03-29 01:15"],
     "four that are skipped are due at one moment, with the one of three: once"),
    ("0 12 * * 0", ROME, "2026-03-26 12:00", ["2026-03-29 10:00", "2026-04-05 10:00"],
     "from before the change to after it"),
    ("30 2 * * *", ROME, "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"],
     "half past two comes twice: due the first time"),
    ("0 2 * * *", ROME, "2026-10-25 00:30", ["2026-10-26 01:00"],
     "asked between the two: the second is none"),
    ("30 2 * * *", ROME, "2026-10-25 01:10", ["2026-10-26 01:30"],
     "asked in the second hour: it was due in the first"),
    ("0 3 * * *", ROME, "2026-10-25 00:30", ["2026-10-25 02:00", "2026-10-26 02:00"],
     "three comes once, after both"),
    ("30 1,2,3 * * *", ROME, "2026-10-24 23:00",
     ["2026-10-24 23:30", "2026-10-25 00:30", "2026-10-25 02:30", "2026-10-26 00:30"],
     "hours that are named are due once each"),
    ("*/15 2 * * *", ROME, "2026-10-25 00:20",
     ["2026-10-25 00:30", "2026-10-25 00:45", "2026-10-26 01:00"],
     "four times, not eight: the hour is named"),
    ("*/30 * * * *", ROME, "2026-10-24 23:40",
     ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30",
      "2026-10-25 02:00"],
     "the hour is left open: both hours are hours"),
    ("45 * * * *", ROME, "2026-10-24 23:50",
     ["2026-10-25 00:45", "2026-10-25 01:45", "2026-10-25 02:45"],
     "every sixty minutes, whatever the clocks show"),
    ("0 0 * * *", ROME, "2026-10-24 12:00", ["2026-10-24 22:00", "2026-10-25 23:00"],
     "a day of 25 hours"),
    # New York: 8 March 2026 at 07:00 UTC from 2 to 3; 1 November at 06:00 UTC from 2 to 1.
    ("30 2 * * *", NEW_YORK, "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:30"],
     "skipped: the moment after"),
    ("30 1 * * *", NEW_YORK, "2026-10-31 12:00", ["2026-11-01 05:30", "2026-11-02 06:30"],
     "repeated: the first time"),
    ("30 2 * * *", NEW_YORK, "2026-10-31 12:00", ["2026-11-01 07:30", "2026-11-02 07:30"],
     "two comes once there, after the repeated hour"),
    ("*/15 * * * *", NEW_YORK, "2026-11-01 05:44",
     ["2026-11-01 05:45", "2026-11-01 06:00", "2026-11-01 06:15"],
     "eight in the two hours"),
    # Lord Howe: 4 October 2026 at 15:30 UTC the day before, 2:00 to 2:30; 5 April 2:00 to 1:30.
    ("15 2 * * *", LORD_HOWE, "2026-10-02 16:00", ["2026-10-03 15:30", "2026-10-04 15:15"],
     "half an hour is skipped: a quarter past two is due at half past"),
    ("45 2 * * *", LORD_HOWE, "2026-10-02 16:30", ["2026-10-03 15:45", "2026-10-04 15:45"],
     "a quarter to three is not skipped"),
    ("45 1 * * *", LORD_HOWE, "2026-04-03 16:00", ["2026-04-04 14:45", "2026-04-05 15:15"],
     "half an hour is repeated: a quarter to two the first time"),
    ("15 1 * * *", LORD_HOWE, "2026-04-03 16:00", ["2026-04-04 14:15", "2026-04-05 14:45"],
     "a quarter past one is not repeated"),
    ("45 * * * *", LORD_HOWE, "2026-04-04 14:00",
     ["2026-04-04 14:45", "2026-04-04 15:15", "2026-04-04 16:15"],
     "the hour is left open: a quarter to two is due both times"),
    ("0 2 * * *", LORD_HOWE, "2026-04-03 16:00", ["2026-04-04 15:30", "2026-04-05 15:30"],
     "two comes once, after the repeated half hour"),
    # The Azores: 25 October 2026 at 01:00 UTC from 1:00 back to midnight, within one day.
    ("30 0 * * *", AZORES, "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"],
     "the first half hour of the day comes twice: due the first time"),
    # Apia: the 30th of December 2011 was left out: from the 29th at midnight to the 31st.
    ("0 12 * * *", APIA, "2011-12-29 12:00",
     ["2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"],
     "noon of the day that is left out is due the moment after, which is the next day's start"),
    ("0 */6 30 12 *", APIA, "2011-12-01 00:00", ["2011-12-30 10:00", "2012-12-29 10:00"],
     "four that are skipped are due at one moment: once"),
    ("0 0 * * *", APIA, "2011-12-29 09:00",
     ["2011-12-29 10:00", "2011-12-30 10:00", "2011-12-31 10:00"],
     "midnight of the left out day is the midnight after it"),
    # No change of clocks.
    ("30 9 * * *", MOSCOW, "2026-06-01 00:00", ["2026-06-01 06:30", "2026-06-02 06:30"],
     "the entry's own zone"),
    ("0 6 * * *", KATHMANDU, "2026-06-01 00:00", ["2026-06-01 00:15", "2026-06-02 00:15"],
     "a zone of five and three quarters hours"),
    ("0 0 * * *", ADELAIDE, "2026-06-01 00:00", ["2026-06-01 14:30", "2026-06-02 14:30"],
     "a zone of nine and a half hours"),
    ("0 0 29 2 *", "UTC", "2026-01-01 00:00", ["2028-02-29 00:00", "2032-02-29 00:00"],
     "leap days alone"),
    ("0 0 29 2 *", "UTC", "2096-03-01 00:00", ["2104-02-29 00:00"],
     "2100 is no leap year: eight years"),
    ("0 2 29 2 0", "UTC", "2028-02-26 00:00", ["2028-02-27 02:00", "2028-02-29 02:00"],
     "either: Sundays of February, and the 29th"),
    ("0 0 31 * *", "UTC", "2026-01-31 00:00",
     ["2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00", "2026-08-31 00:00",
      "2026-10-31 00:00", "2026-12-31 00:00", "2027-01-31 00:00"],
     "months without a 31st have none: it is not moved to their last day"),
    ("0 0 31 * *", ROME, "2026-03-01 00:00", ["2026-03-30 22:00", "2026-05-30 22:00"],
     "the last of March is in summer time already"),
    ("59 23 31 12 *", "UTC", "2026-12-31 23:59", ["2027-12-31 23:59"], "over the year's end"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "zone", "after", "fires", "_rule"), TABLE)
def test_fires_when_the_table_says(
    text: str, zone: str, after: str, fires: list[str], _rule: str
) -> None:
    cron = Cron.read(text, ZoneInfo(zone))
    assert [at(each) for each in fires] == cron.upcoming(at(after), len(fires))


@pytest.mark.parametrize(("text", "zone", "after", "fires", "_rule"), TABLE)
def test_looking_back_finds_the_same(
    text: str, zone: str, after: str, fires: list[str], _rule: str
) -> None:
    cron, found = Cron.read(text, ZoneInfo(zone)), at(fires[-1]) + timedelta(seconds=59.5)
    back = []
    for _ in fires:
        found = cron.latest(found)
        back.append(found)
        found -= timedelta(microseconds=1)
    assert [at(each) for each in fires] == back[::-1]


def test_croniter_alone_would_fire_at_other_times() -> None:
    """Of the rows with changes of clocks: else our rules would not be tested by them."""
    differ = {
        (text, zone, after[:10])
        for text, zone, after, fires, _ in TABLE
        if [at(each) for each in fires] != theirs(text, zone, at(after), len(fires))
    }
    for row in (
        ("30 2 * * *", ROME, "2026-10-24"),
        ("45 1 * * *", LORD_HOWE, "2026-04-03"),
        ("30 1 * * *", NEW_YORK, "2026-10-31"),
    ):
        assert row in differ


def theirs(text: str, zone: str, after: datetime, count: int) -> list[datetime]:
    """Return what croniter makes of the zone by itself."""
    asked = croniter(text, after.astimezone(ZoneInfo(zone)))
    return [asked.get_next(datetime).astimezone(UTC) for _ in range(count)]


# An oracle that knows of no change of clocks: it asks the zone what it shows at each minute.


def minutes_due(cron: Cron, start: datetime, minutes: int) -> list[datetime]:
    """Return when a schedule is due, by a walk over every minute."""
    found, before, seen = [], local_at(cron, start - timedelta(minutes=1)), set[datetime]()
    back = start - timedelta(hours=30)  # what has been shown already
    while back < start:
        seen.add(local_at(cron, back))
        back += timedelta(minutes=1)
    for number in range(minutes):
        instant = start + timedelta(minutes=number)
        local = local_at(cron, instant)
        shown = [local] if local not in seen or cron.fields.hour is None else []
        skipped = before + timedelta(minutes=1)
        while skipped < local:  # the clocks have been set forward
            shown.append(skipped)
            skipped += timedelta(minutes=1)
        if any(is_due(cron, each) for each in shown):
            found.append(instant)
        seen.add(local)
        before = local
    return found


def local_at(cron: Cron, instant: datetime) -> datetime:
    return instant.astimezone(cron.zone).replace(tzinfo=None, fold=0)


def is_due(cron: Cron, local: datetime) -> bool:
    fields = cron.fields
    named = (
        (fields.minute, local.minute),
        (fields.hour, local.hour),
        (fields.month, local.month),
        (fields.day, local.day),
        (fields.weekday, local.isoweekday() % 7),
    )
    return all(numbers is None or number in numbers for numbers, number in named)


CHANGES = [  # zone, and the moment at which its clocks are set
    (ROME, "2026-03-29 01:00"), (ROME, "2026-10-25 01:00"),
    (NEW_YORK, "2026-03-08 07:00"), (NEW_YORK, "2026-11-01 06:00"),
    (LORD_HOWE, "2026-10-03 15:30"), (LORD_HOWE, "2026-04-04 15:00"),
    (AZORES, "2026-03-29 01:00"), (AZORES, "2026-10-25 01:00"),
    (APIA, "2011-12-30 10:00"),
    ("Africa/Casablanca", "2026-02-15 02:00"), ("Africa/Casablanca", "2026-03-22 02:00"),
    ("America/Havana", "2026-11-01 05:00"), ("America/Santiago", "2026-04-05 03:00"),
    ("Africa/Cairo", "2026-10-29 21:00"), ("Asia/Kathmandu", "2026-01-01 00:00"),
]  # fmt: skip


@st.composite
def schedules(draw: st.DrawFn) -> str:
    """Schedules that are due now and then within a day, about the hours of changes."""
    minute = draw(st.sampled_from(["0", "30", "*/15", "*/20", "15,45", "59", "*", "7"]))
    hour = draw(st.sampled_from(["*", "*", "0", "1", "2", "3", "1-3", "*/6", "0,23", "23"]))
    return f"{minute} {hour} * * *"


@settings(max_examples=60)
@given(schedules(), st.sampled_from(CHANGES), st.integers(0, 300), st.integers(0, 59_999_999))
@example("45 * * * *", (LORD_HOWE, "2026-04-04 15:00"), 200, 0)
@example("30 23 * * *", ("America/Santiago", "2026-04-05 03:00"), 200, 0)
@example("* * * * *", (ROME, "2026-10-25 01:00"), 60, 20_000)  # the first moment of the hour
def test_every_minute_about_a_change_is_as_the_oracle_says(
    text: str, change: tuple[str, str], earlier: int, beyond: int
) -> None:
    zone, moment = change
    cron = Cron.read(text, ZoneInfo(zone))
    start = at(moment) - timedelta(minutes=earlier)
    expected = minutes_due(cron, start, 480)
    first, end = start - timedelta(microseconds=1), start + timedelta(minutes=480)
    found, instant = [], cron.after(first)
    while instant < end:
        found.append(instant)
        instant = cron.after(instant)
    assert expected == found
    between = start + timedelta(minutes=240, microseconds=beyond)
    for minutes in range(0, 480, 20):  # each of which may lie in either of two hours
        now = start + timedelta(minutes=minutes, microseconds=beyond)
        if coming := [each for each in expected if each > now]:
            assert coming[0] == cron.after(now)
    past = [each for each in expected if each <= between]
    if past:
        assert past[-1] == cron.latest(between)


@pytest.mark.parametrize("text", ["* * * * *", "30 2 * * *", "0 3 1 1 *"])
@pytest.mark.parametrize("micros", [0, 1, 20_000, 999_999])
@pytest.mark.parametrize("change", CHANGES)
def test_the_first_second_of_a_change_is_a_time_like_any_other(
    text: str, micros: int, change: tuple[str, str]
) -> None:
    """The search for the moment of a change ends, also within a second of it."""
    zone, moment = change
    cron = Cron.read(text, ZoneInfo(zone))
    for hours in (-2, -1, -0.5, 0, 0.5, 1):
        now = at(moment) + timedelta(hours=hours, microseconds=micros)
        assert cron.latest(now) <= now < cron.after(now)


@settings(max_examples=40)
@given(
    st.sampled_from(["30 2 * * *", "*/15 * * * *", "0 0 1 * *", "0 4 * * 0", "45 23 * 3,10 *"]),
    st.sampled_from([zone for zone, _ in CHANGES]),
    st.datetimes(datetime.fromisoformat("1990-01-01"), datetime.fromisoformat("2037-01-01")),
)
def test_next_and_previous_are_inverse_in_any_zone(text: str, zone: str, near: datetime) -> None:
    cron, now = Cron.read(text, ZoneInfo(zone)), near.replace(tzinfo=UTC)
    later = cron.after(now)
    assert cron.latest(now) <= now < later
    assert later == cron.latest(later) == cron.after(cron.before(later))
    assert cron.latest(now) == cron.before(later)
    assert later == cron.before(later + timedelta(microseconds=1))
