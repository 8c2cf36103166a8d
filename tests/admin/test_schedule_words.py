"""How a schedule and its moments are said."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from django_jobs.admin.schedule_page import coming
from django_jobs.admin.schedule_words import MISSED, in_words, in_zone, read, said
from django_jobs.cron import parse

ROME = ZoneInfo("Europe/Rome")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/1 0-23 * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("@hourly", "every hour at minute 0"),
        ("7 * * * *", "every hour at minute 7"),
        ("0 3 * * *", "every day at 03:00"),
        ("@daily", "every day at 00:00"),
        ("5 14 * * mon-fri", "Monday to Friday at 14:05"),
        ("5 14 * * 1,2,3,4,5", "Monday to Friday at 14:05"),
        ("0 3 * * sun", "every Sunday at 03:00"),
        ("0 3 * * 7", "every Sunday at 03:00"),
        ("0 3 * * 6", "every Saturday at 03:00"),
        ("0 3 * * 1", "every Monday at 03:00"),
        ("0 0 1 * *", "on day 1 of the month at 00:00"),
    ],
)
def test_a_plain_schedule_is_said_in_words(schedule: str, words: str) -> None:
    assert words == in_words(parse(schedule))


@pytest.mark.parametrize(
    "schedule",
    [
        "*/7 * * * *",  # from minute 56 it is four minutes to the next
        "5,35 * * * *", "1,2 * * * *", "* 3 * * *", "*/5 3 * * *", "0 3,4 * * *", "0 * * * 1",
        "0 * 1 * *", "0 3 1 * 1", "0 3 1,2 * *", "0 3 * * 1,3", "0 3 * 1 *", "0 0 1 1 *",
        "* * * 1 *",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_not_said_in_words(schedule: str) -> None:
    assert "" == in_words(parse(schedule))


def test_a_row_that_another_version_wrote_is_said_to_be_unreadable() -> None:
    reading = read("0 0 31 2 *", "UTC")
    assert (None, None, "") == (reading.cron, reading.zone, reading.words)
    assert "no month that it names has such a day" in reading.fault


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../x", "\0", "x" * 5000, "Europe"])
def test_a_zone_that_is_not_here_is_told(zone: str) -> None:
    assert f"there is no time zone “{zone}” here" == read("0 3 * * *", zone).fault


def test_a_code_of_another_version_is_shown_as_it_is() -> None:
    assert "its last job was still live" == said(MISSED, "overlap")
    assert "eclipse" == said(MISSED, "eclipse")


def test_a_repeated_hour_is_told_from_the_first() -> None:
    first, second = (datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1))
    assert "Sun 2026-10-25 02:30 CEST" == in_zone(first, ROME)
    assert "Sun 2026-10-25 02:30 CET" == in_zone(second, ROME)
    assert "Sun 2026-10-25 01:30 UTC" == in_zone(second, None)
    assert "Sun 2026-10-25 02:30:07 CEST" == in_zone(first.replace(second=7), ROME)


def test_the_next_occurrences_are_those_of_the_row() -> None:
    now = datetime(2026, 10, 24, 22, 45, tzinfo=UTC)
    row = SimpleNamespace(
        reading=read("30 * * * *", "Europe/Rome"), now=now, gone_at=None, disabled_at=None,
        enabled=True,
    )  # fmt: skip
    expected = ["01:30 CEST", "02:30 CEST", "02:30 CET", "03:30 CET", "04:30 CET"]
    assert [f"Sun 2026-10-25 {each}" for each in expected] == [each.exact for each in coming(row)]
    assert ">in 45 m 00 s<" in coming(row)[0].moment


def test_what_nobody_can_read_or_has_gone_has_no_next_occurrences() -> None:
    now = datetime(2026, 10, 24, 22, 45, tzinfo=UTC)
    said = {"now": now, "disabled_at": None, "enabled": True}
    assert [] == coming(SimpleNamespace(reading=read("x", "UTC"), gone_at=None, **said))
    assert [] == coming(SimpleNamespace(reading=read("* * * * *", "UTC"), gone_at=now, **said))
