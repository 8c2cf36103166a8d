"""Durations, moments and JSON as people read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import repeat

import pytest
from django.utils import timezone

from django_jobs.admin.moments import absolute, duration, took, when
from django_jobs.admin.pretty import SHOWN, Pretty, _first, decoded, pretty, shown

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"), (0.4, "0.4 s"), (9.94, "9.9 s"), (10, "10 s"), (59.9, "59 s"),
        (60, "1 m 00 s"), (842, "14 m 02 s"), (3600, "1 h 00 m"), (11_100, "3 h 05 m"),
        (86_400, "1 d 0 h"), (10**7, "115 d 17 h"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float, words: str) -> None:
    assert words == duration(seconds)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 ms"), (0.0126, "12 ms"), (0.999, "999 ms"), (1, "1.0 s")]
)
def test_what_took_less_than_a_second_is_told_in_milliseconds(seconds: float, words: str) -> None:
    assert words == took(seconds)


def test_a_moment_is_relative_with_the_exact_time_in_its_title() -> None:
    html = when(NOON - timedelta(minutes=2), now=NOON)
    assert (
        '<time datetime="2026-11-30T11:58:00+00:00" title="2026-11-30 11:58:00 UTC">'
        "2 m 00 s ago</time>"
    ) == html
    assert ">in 3.0 s<" in when(NOON + timedelta(seconds=3), now=NOON)
    assert "" == when(None, now=NOON)


def test_the_exact_time_is_in_the_readers_zone() -> None:
    with timezone.override("Europe/Rome"):
        assert "2026-11-30 13:00:00 CET" == absolute(NOON)
    assert "2026-11-30 12:00:00" == absolute(NOON.replace(tzinfo=None))


def test_no_more_is_made_than_is_shown() -> None:
    assert Pretty("x" * SHOWN, cut=True) == _first(repeat("x"))


def test_nesting_makes_no_endless_indent() -> None:
    deep = "[" * 400 + ",".join("1" * 100_000) + "]" * 400
    text = pretty(deep)
    assert text is not None
    assert (SHOWN, True) == (len(text.text), text.cut)


@pytest.mark.parametrize("value", [None, 0, "", [], {}, "x", {"a": [1, {"b": None}]}])
def test_what_is_short_is_shown_whole(value: object) -> None:
    text = pretty(json.dumps(value))
    assert text is not None
    assert (value, False) == (json.loads(text.text), text.cut)


def test_no_text_breaks_the_answer() -> None:
    for text in ('"\\ud800"', "\ud800", "\x00", "x" * 100_000, '"\\u0000"'):
        made = pretty(text)
        assert made is not None
        made.text.encode()
        shown(text).text.encode()
    assert pretty(None) is None


@pytest.mark.parametrize("text", [None, "", "x", "[1]", "1", "[" * 100_000])
def test_what_is_no_object_decodes_to_nothing(text: str | None) -> None:
    assert {} == decoded(text)
