"""How long what is over is kept: what may be set, what it is by default, what is refused."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from django_jobs.conf import InvalidOption, Problem, problems
from django_jobs.conf.retention import DEFAULTS, EVENTS, MOST
from django_jobs.states import FINAL
from tests.aliases import put_options

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "settings.md"
WHERE = "TASKS['default']['OPTIONS']['retention']"


@pytest.fixture
def put(settings):
    """Set the option; return it as it is read."""

    def put(value: Any) -> Any:
        return partial(put_options, settings)({"retention": value}).retention

    return put


def only_fault() -> Problem:
    [problem] = problems("default")
    return problem


def test_every_final_state_has_an_age_and_so_have_events():
    assert {*FINAL, EVENTS} == set(DEFAULTS)


def test_what_is_not_named_keeps_its_default(put):
    assert dict(DEFAULTS) == put({})
    assert {**DEFAULTS, "dead": None} == put({"dead": None})
    assert [] == list(problems("default"))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(timedelta(days=2), 172_800.0), (3600, 3600.0), (0.5 + 1, 1.5), (MOST, MOST), (None, None)],
)
def test_an_age_is_a_timedelta_or_seconds_or_nothing(put, value, seconds):
    assert seconds == put({"succeeded": value})["succeeded"]


@pytest.mark.parametrize(
    "value",
    [True, False, "7d", "", 0, -1, 0.5, MOST + 1, math.nan, math.inf, timedelta(0), timedelta.max,
     timedelta(days=-1), [7], 1j],
)  # fmt: skip
def test_what_is_no_age_is_refused(put, value):
    with pytest.raises(InvalidOption) as raised:
        put({"dead": value})
    assert "E003" == raised.value.code
    assert f"{WHERE}['dead']" in str(raised.value)
    assert "django_jobs.E003" == only_fault().id


@pytest.mark.parametrize("value", [None, 7, [], "dead", timedelta(days=1)])
def test_what_is_no_dictionary_is_refused(put, value):
    with pytest.raises(InvalidOption):
        put(value)
    assert "None keeps for ever" in only_fault().hint


@pytest.mark.parametrize(
    ("key", "near"),
    [("succeded", "succeeded"), ("canceled", "cancelled"), ("event", "events"), ("Dead", "dead")],
)
def test_an_unknown_key_is_refused_and_a_near_one_suggested(put, key, near):
    with pytest.raises(InvalidOption):
        put({key: 60})
    assert ("django_jobs.E002", f"Take out {key!r}. Did you mean {near!r}?") == (
        only_fault().id, only_fault().hint,
    )  # fmt: skip


@pytest.mark.parametrize("key", ["ready", "running", 7, None])
def test_a_live_state_has_no_age(put, key):
    with pytest.raises(InvalidOption):
        put({key: 60})


def test_the_reference_says_how_long_each_is_kept():
    text = PAGE.read_text().partition("\n| What ended |")[2].partition("\n\n")[0]
    days = {
        key: int(days)
        for key, days in re.findall(r"^\| `(\w+)` \| (\d+) days", text, re.MULTILINE)
    }
    assert {key: seconds / 86_400 for key, seconds in DEFAULTS.items()} == days
