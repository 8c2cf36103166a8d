"""A worker lives as long as both its renewer and its claim loop are heard of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from django_jobs.models import Worker
from tests.worlds import register

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def health(*, seen: float = 0, loop: float = 0, **columns: Any) -> str:
    """Return the health of a worker that was heard of so many seconds ago."""
    known = {"state": "running", "renew_seconds": 10.0, **columns}
    signs = {"seen_at": NOW - timedelta(seconds=seen), "loop_at": NOW - timedelta(seconds=loop)}
    return Worker(id=uuid4(), **known, **signs).health_at(NOW)


@pytest.mark.parametrize(
    ("silence", "word"),
    [(0, "live"), (20, "live"), (20.1, "late"), (30, "late"), (30.1, "gone"), (-5, "live")],
)
def test_two_missed_heartbeats_make_it_late_and_three_gone(silence, word):
    assert word == health(seen=silence, loop=silence)


def test_a_silent_loop_counts_although_the_renewer_is_heard_of():
    assert "late" == health(seen=1, loop=25)
    assert "gone" == health(seen=1, loop=31)


def test_a_silent_renewer_counts_although_the_loop_is_heard_of():
    assert "late" == health(seen=25, loop=1)
    assert "gone" == health(seen=31, loop=1)


@pytest.mark.parametrize(("renew", "word"), [(2, "gone"), (5, "late"), (6, "live"), (40, "live")])
def test_a_worker_is_judged_by_its_own_interval(renew, word):
    assert word == health(seen=12, renew_seconds=renew)


def test_a_draining_worker_can_be_late_and_gone():
    assert "draining" == health(state="draining", seen=1)
    assert "late" == health(state="draining", seen=25)
    assert "gone" == health(state="draining", loop=31)


def test_a_stopped_worker_is_neither_late_nor_gone():
    assert "stopped" == health(state="stopped", seen=9999)


def test_a_worker_in_a_state_of_a_later_version_is_live():
    assert "live" == health(state="resting")


@pytest.mark.django_db
def test_the_last_heard_of_come_first_by_the_older_sign():
    now, ago = datetime.now(UTC), timedelta(seconds=60)
    names = {
        register(name="loop", loop_at=now - ago): "loop",
        register(name="both"): "both",
        register(name="renewer", seen_at=now - 2 * ago): "renewer",
        register(name="ended", state="stopped"): "ended",
    }
    found: Any = Worker.objects.unstopped().last_heard_of_first()
    assert ["both", "loop", "renewer"] == [names[each.pk] for each in found]
    assert all(each.now.tzinfo is not None for each in found)
