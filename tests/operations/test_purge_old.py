"""Retention: what has been over for long enough goes; what lives, or is needed, stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now

from django_jobs.models import Activity, Dependency, Event, Job
from django_jobs.operations.act import Actor
from django_jobs.operations.purge import purge
from django_jobs.operations.purge_old import (
    BATCH,
    MOST_PASSED,
    Batch,
    Place,
    due,
    purge_events,
    purge_old,
)
from django_jobs.operations.requeue import requeue
from django_jobs.sql import SiteDatabase
from django_jobs.states import FINAL, LIVE
from tests.backends import opened
from tests.operations.desk import job_row, kinds
from tests.operations.ended import ANA, ended, live, paused_at_the_gate
from tests.processes import ROOT, wait_for
from tests.worlds import Session

pytestmark = pytest.mark.django_db(transaction=True)

HERE = SiteDatabase("default")
DAY = timedelta(days=1)
WEEK = 7 * 86_400.0
OLD: Any = Now() - 8 * DAY


def away(state: str = "dead", **changes: Any) -> Batch:
    """Purge what has been over for a week."""
    known: dict[str, Any] = {
        "age": WEEK, "backend": "default",
        "transaction": transaction.atomic(), "database": HERE,
    }  # fmt: skip
    return purge_old(state, **{**known, **changes})


def left() -> list[int]:
    return list(Job.objects.order_by("pk").values_list("pk", flat=True))


def found_due(**changes: Any) -> list[str]:
    known: dict[str, Any] = {
        "places": {}, "events": 30 * 86_400.0, "backend": "default", "database": HERE,
    }  # fmt: skip
    return due(dict.fromkeys(sorted(FINAL), WEEK), **{**known, **changes})


def loose(age: timedelta, **columns: Any) -> Event:
    """An event that belongs to no job."""
    known: dict[str, Any] = {
        "kind": "skipped",
        "attempt": 0,
        "life": 0,
        "placement": 1,
        "host": "h",
    }
    return Event.objects.create(at=Now() - age, **{**known, **columns})


@pytest.fixture
def other_worker(transactional_db: None) -> Iterator[Session]:
    """A session in a transaction of its own, as that of another worker."""
    with opened() as wrapper:
        wrapper.set_autocommit(False)
        yield Session(wrapper)
        wrapper.rollback()


# What goes


@pytest.mark.parametrize("state", sorted(FINAL))
def test_an_old_job_goes_with_its_events_and_a_younger_one_stays(state: str) -> None:
    [old] = ended(1, state, finished_at=OLD)
    [young] = ended(1, state, finished_at=Now() - 6 * DAY)
    assert (1, 1, 1) == away(state)[:3]
    assert ([young], []) == (left(), kinds(old))
    assert 1 == len(kinds(young))


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_of_any_age_stays(state: str) -> None:
    pk = live(state)
    Job.objects.filter(pk=pk).update(enqueued_at=Now() - 9 * DAY)
    assert 0 == sum(away(each).gone for each in [*FINAL, state])
    assert [pk] == left()


def test_only_the_state_that_is_named_goes() -> None:
    [dead] = ended(1, "dead", finished_at=OLD)
    ended(1, "succeeded", finished_at=OLD)
    assert 1 == away("succeeded").gone
    assert [dead] == left()


def test_jobs_of_another_alias_are_left_to_its_own_workers() -> None:
    [theirs] = ended(finished_at=OLD, backend="other")
    assert (Batch(0, 0, 0, Place()), []) == (away(), found_due())
    assert [theirs] == left()
    assert 1 == away(backend="other").gone


def test_the_oldest_go_first_and_a_batch_has_an_end() -> None:
    newer = ended(3, finished_at=OLD)
    ended(2, finished_at=OLD - DAY)
    assert (2, 2, 2) == away(limit=2)[:3]
    assert newer == left()


def test_the_next_batch_begins_where_the_last_ended() -> None:
    [kept] = ended(finished_at=OLD - DAY)
    Dependency.objects.create(parent=kept, child=live("waiting"))
    ended(3, finished_at=OLD)
    first = away(limit=1)
    assert Batch(0, 1, 1, Place(job_row(kept).finished_at, frozenset({kept}))) == first
    assert (2, 2, 2) == away(limit=2, place=first.place)[:3]
    assert (1, 2, 2) == away(limit=2)[:3]


def test_what_ended_before_the_place_is_not_walked_again() -> None:
    [before] = ended(finished_at=OLD - DAY)
    [after] = ended(finished_at=OLD)
    assert (1, 1, 1) == away(place=Place(job_row(after).finished_at))[:3]
    assert [before] == left()


def test_more_of_one_moment_that_must_stay_than_a_batch_hold_up_no_other() -> None:
    parents = ended(5, finished_at=OLD)
    child = live("waiting")
    Dependency.objects.bulk_create(Dependency(parent=pk, child=child) for pk in parents)
    at = job_row(parents[0]).finished_at
    ended(3, finished_at=at)
    place, gone = Place(), 0
    for _ in range(5):
        batch = away(limit=2, place=place)
        place, gone = batch.place, gone + batch.gone
    assert (3, Place(at, frozenset(parents))) == (gone, place)
    assert [*parents, child] == left()


def test_what_is_passed_at_one_moment_has_a_bound() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    place = Place(at, frozenset(range(MOST_PASSED)))
    assert Place(at + timedelta(microseconds=1)) == place.onwards(at, [MOST_PASSED])
    assert Place(at + DAY, frozenset({7})) == place.onwards(at + DAY, [7])
    assert place == place.onwards(None, [])


def test_it_leaves_no_record_of_an_act() -> None:
    ended(finished_at=OLD)
    away()
    assert not Activity.objects.exists()


def test_a_batch_takes_as_many_statements_whatever_its_size(
    django_assert_num_queries: Any,
) -> None:
    ended(BATCH, finished_at=OLD)
    with django_assert_num_queries(4):  # the transaction's own two among them
        assert BATCH == away().gone
    with django_assert_num_queries(3):
        assert 0 == away().gone


# Who is needed


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_parent_stays_while_a_child_lives(state: str) -> None:
    [parent] = ended(1, "succeeded", finished_at=OLD)
    child = live(state)
    Dependency.objects.create(parent=parent, child=child)
    assert (0, 1, 1) == away("succeeded")[:3]
    assert [parent, child] == left()
    assert 1 == len(kinds(parent)) == Dependency.objects.count()


def test_a_parent_goes_when_its_children_have_ended_and_so_do_the_ties() -> None:
    parent, child = ended(2, "succeeded", finished_at=OLD)
    [young] = ended(1, "succeeded")
    for each in (child, young):
        Dependency.objects.create(parent=parent, child=each)
    assert 2 == away("succeeded").gone
    assert ([young], 0) == (left(), Dependency.objects.count())


def test_a_child_that_is_being_enqueued_keeps_its_parent(other_worker: Session) -> None:
    [parent] = ended(1, "succeeded", finished_at=OLD)
    with other_worker.connection.cursor() as cursor:  # what an enqueue with parents does
        cursor.execute("SELECT 1 FROM django_jobs_job WHERE id = %s FOR KEY SHARE", [parent])
        assert (0, 0, 1) == away("succeeded")[:3]
    assert [parent] == left()


def test_a_child_that_was_tied_before_the_lock_keeps_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [parent] = ended(1, "succeeded", finished_at=OLD)
    with paused_at_the_gate("purge_old_lock", lambda: away("succeeded"), monkeypatch) as late:
        child = live("waiting")  # the purge has looked
        Dependency.objects.create(parent=parent, child=child)
    assert (0, 1, 1) == late.result(timeout=5)[:3]
    assert [parent, child] == left()
    assert [(parent, child)] == list(Dependency.objects.values_list("parent", "child"))


def test_a_job_that_was_requeued_before_the_lock_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    [pk] = ended(finished_at=OLD)
    with paused_at_the_gate("purge_old_lock", away, monkeypatch) as late:
        assert 1 == requeue([pk], actor=ANA, database="default").count
    assert (0, 0, 1) == late.result(timeout=5)[:3]
    assert ("ready", ["dead", "requeued"]) == (job_row(pk).state, kinds(pk))


def test_a_job_that_ended_again_before_the_lock_is_young_and_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pk] = ended(finished_at=OLD)
    with paused_at_the_gate("purge_old_lock", away, monkeypatch) as late:
        Job.objects.filter(pk=pk).update(finished_at=Now(), life=2)
    assert (0, 0, 1) == late.result(timeout=5)[:3]
    assert [pk] == left()


# Others at the same time


def test_what_another_holds_is_passed_over_and_the_rest_goes(other_worker: Session) -> None:
    held, _free = ended(2, finished_at=OLD)
    with other_worker.connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_jobs_job WHERE id = %s FOR UPDATE", [held])
        assert (1, 1, 2) == away()[:3]
    assert [held] == left()


def test_two_who_purge_at_once_share_the_rows_and_nobody_waits(other_worker: Session) -> None:
    ended(4, finished_at=OLD)
    theirs = purge_old(
        "dead",
        age=WEEK,
        limit=2,
        backend="default",
        transaction=nullcontext(),
        database=other_worker,
    )
    assert 2 == theirs.gone
    assert (0, 0, 2) == away(limit=2)[:3]  # it can tell that somebody is at it
    assert (2, 2, 4) == away(limit=4)[:3]
    other_worker.connection.commit()
    assert [] == left()


def test_a_tie_that_another_purge_removes_is_waited_for(other_worker: Session) -> None:
    """Their ties are the same rows, taken in one order: nobody waits for who waits for it."""
    yours, mine = ended(2, finished_at=OLD - DAY), ended(2, finished_at=OLD)
    Dependency.objects.create(parent=mine[0], child=yours[0])
    Dependency.objects.create(parent=yours[1], child=mine[1])
    assert 2 == purge_old(
        "dead", age=WEEK, limit=2, backend="default",
        transaction=nullcontext(), database=other_worker,
    ).gone  # fmt: skip
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(_in_a_thread)
        wait_for(_waits_for_a_row, what="Nobody waits.")
        other_worker.connection.commit()
        assert 2 == late.result(timeout=5)
    assert ([], 0) == (left(), Dependency.objects.count())


def _in_a_thread() -> int:
    try:
        return away().gone
    finally:
        connections.close_all()


def _waits_for_a_row() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def test_it_is_undone_whole_by_a_kill_in_the_middle() -> None:
    ids = ended(3, finished_at=OLD)
    Dependency.objects.create(parent=ids[0], child=ids[1])
    script = f"""
import os, signal
import django
django.setup()
from contextlib import nullcontext
from django.db import connection
from django_jobs.operations.purge_old import purge_old
from django_jobs.sql import SiteDatabase
connection.settings_dict["NAME"] = {connection.settings_dict["NAME"]!r}
connection.set_autocommit(False)
batch = purge_old("dead", age={WEEK}, backend="default",
                  transaction=nullcontext(), database=SiteDatabase("default"))
print(batch.gone, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ("3\n", -signal.SIGKILL) == (done.stdout, done.returncode), done.stderr
    assert ids == left()
    assert (3, 1) == (Event.objects.count(), Dependency.objects.count())
    wait_for(lambda: away().gone == 3, what="The locks of the killed process stay.")


# What is due


def test_what_is_due_is_told_by_state() -> None:
    ended(1, "dead", finished_at=OLD)
    ended(2, "succeeded", finished_at=OLD)
    ended(1, "expired")
    live("ready")
    assert ["dead", "succeeded"] == sorted(found_due())


def test_what_was_passed_over_is_not_due_again() -> None:
    ended(1, "dead", finished_at=OLD)
    later = datetime.now(UTC) - timedelta(days=7, hours=1)
    assert [] == found_due(places={"dead": Place(later)})
    assert [] == found_due(places={"dead": Place(Job.objects.get().finished_at)})
    assert ["dead"] == found_due(places={"dead": Place(later - 2 * DAY), "expired": Place(later)})


def test_nothing_is_due_without_an_age() -> None:
    ended(1, "dead", finished_at=OLD)
    loose(99 * DAY)
    known: Any = {"places": {}, "backend": "default", "database": HERE}
    assert [] == due({}, events=None, **known)
    assert ["dead"] == due({"dead": WEEK}, events=None, **known)


def test_the_look_is_one_statement(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        found_due()


# Events


def test_old_events_without_a_job_go_and_those_of_a_job_never() -> None:
    [pk] = ended()
    Event.objects.filter(job_id=pk).update(at=Now() - 99 * DAY)
    orphans = [loose(31 * DAY), loose(32 * DAY, kind="nobody_knows", host=None)]
    young = loose(29 * DAY)
    assert ["events"] == found_due()
    assert len(orphans) == purge_events(age=30 * 86_400.0, database=HERE)
    assert [] == found_due()
    assert {young.pk, *Event.objects.filter(job_id=pk).values_list("pk", flat=True)} == set(
        Event.objects.values_list("pk", flat=True)
    )


def test_a_batch_of_events_has_an_end_and_passes_over_what_is_held(
    other_worker: Session,
) -> None:
    first, _, _, last = [loose(40 * DAY - n * DAY) for n in range(4)]
    with other_worker.connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_jobs_event WHERE id = %s FOR UPDATE", [first.pk])
        assert 2 == purge_events(age=WEEK, limit=2, database=HERE)
        assert Event.objects.filter(pk=last.pk).exists()
        assert 1 == purge_events(age=WEEK, limit=2, database=HERE)
    assert [first.pk] == list(Event.objects.values_list("pk", flat=True))


def test_an_operators_purge_beside_it_does_no_harm(second_connection: BaseDatabaseWrapper) -> None:
    ids = ended(3, finished_at=OLD)
    second_connection.set_autocommit(False)
    other = Session(second_connection)
    assert (
        3
        == purge_old(
            "dead",
            age=WEEK,
            backend="default",
            transaction=nullcontext(),
            database=other,
        ).gone
    )
    done = purge(ids, actor=Actor(name="ana", via="cli"), database="default")
    assert (0, {"locked"}) == (done.count, set(done.refused.values()))
    second_connection.commit()
    assert [] == left()
