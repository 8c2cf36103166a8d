"""The sweeper's purge: in short batches, as the settings say, and to nobody's harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now

from django_jobs.conf.retention import DEFAULTS
from django_jobs.models import Dependency, Event, Job
from django_jobs.operations.purge_old import BATCH, purge_old
from django_jobs.sql import Row
from django_jobs.worker import retention
from django_jobs.worker.connection import PrivateDatabase
from django_jobs.worker.retention import BUDGET, LOOK_EVERY, Retention
from tests.operations.ended import ended, live
from tests.operations.test_purge_old import DAY, OLD, WEEK, left, loose
from tests.worker.fleet import Fleet

AGES = dict.fromkeys(DEFAULTS, WEEK)


class Counted(PrivateDatabase):
    """Counts the statements that it sends."""

    def __init__(self) -> None:
        super().__init__("default", purpose="retention")
        self.sent: Counter[str] = Counter()

    def fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        self.sent[name] += 1
        return super().fetch(name, params)


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the module."""
    clock = Clock()
    monkeypatch.setattr(retention, "monotonic", clock)
    return clock


@pytest.fixture
def database(transactional_db: None) -> Iterator[Counted]:
    """The sweeper's connection."""
    found = Counted()
    yield found
    found.close()


def keeper(
    database: PrivateDatabase, ages: Mapping[str, float | None] = AGES, backend: str = "default"
) -> Retention:
    return Retention(ages, backend=backend, database=database)


def test_every_state_that_is_old_goes_and_so_do_events_without_a_job(
    database: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="django_jobs.worker")
    for state in ("succeeded", "cancelled", "expired", "dropped", "dead"):
        ended(2, state, finished_at=OLD)
    [young] = ended()
    loose(8 * DAY)
    pause = keeper(database).turn()
    assert ([young], [young]) == (left(), list(Event.objects.values_list("job_id", flat=True)))
    assert LOOK_EVERY * 0.79 < pause < LOOK_EVERY * 1.21
    words = "2 cancelled, 2 dead, 2 dropped, 1 events, 2 expired, 2 succeeded"
    assert [f"purged what was kept long enough: {words}"] == caplog.messages


def test_what_is_kept_for_ever_stays(database: Counted) -> None:
    kept = ended(1, "dead", finished_at=OLD)
    ended(1, "succeeded", finished_at=OLD)
    event = loose(99 * DAY)
    keeper(database, {**AGES, "dead": None, "events": None}).turn()
    assert (kept, True) == (left(), Event.objects.filter(pk=event.pk).exists())


def test_without_any_age_nothing_is_sent(database: Counted) -> None:
    keeper(database, dict.fromkeys(AGES)).turn()
    assert {} == database.sent


def test_a_look_in_vain_is_one_statement_and_the_next_is_a_minute_later(
    database: Counted, clock: Clock
) -> None:
    subject = keeper(database)
    pauses = []
    for _ in range(100):
        pauses.append(subject.turn())
        clock.now += 1.0
    assert ["purge_due"] == list(database.sent)
    assert 2 <= database.sent["purge_due"] <= 3
    assert min(pauses) > 0


def test_a_turn_ends_when_its_time_is_over_and_rests_longer(
    database: Counted, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(50, finished_at=OLD)
    subject = keeper(database)
    subject._limit = 10
    real = purge_old

    def slow(*args: Any, **options: Any) -> Any:
        clock.now += BUDGET * 0.6
        options["limit"] = 10
        return real(*args, **options)

    monkeypatch.setattr(retention, "purge_old", slow)
    monkeypatch.setattr(retention, "BATCH", 10)
    pause = subject.turn()
    assert 30 == len(left())  # two batches
    assert pytest.approx(BUDGET * 1.2 * retention.REST) == pause
    assert pause == pytest.approx(subject.turn())  # it is not time
    assert 30 == len(left())
    clock.now += pause + 0.001
    subject.turn()
    assert 10 == len(left())
    assert 1 == database.sent["purge_due"]


def test_a_batch_that_takes_too_long_is_followed_by_a_smaller_one(
    database: Counted, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(30, finished_at=OLD)
    limits: list[int] = []
    real = purge_old

    def slow(*args: Any, **options: Any) -> Any:
        clock.now += BUDGET * (2 if len(limits) < 2 else 0.1)
        limits.append(options["limit"])
        return real(*args, **{**options, "limit": 2})._replace(seen=options["limit"])

    monkeypatch.setattr(retention, "purge_old", slow)
    subject = keeper(database)
    for _ in range(3):
        pause = subject.turn()  # which moves the clock itself
        clock.now += pause + 0.001
    assert [BATCH, BATCH // 2, BATCH // 4, BATCH // 2, BATCH] == limits[:5]


def test_parents_that_must_stay_do_not_hold_up_the_younger(
    database: Counted, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than one batch, all of one moment."""
    monkeypatch.setattr(retention, "BATCH", 5)
    at = Job.objects.get(pk=ended(1, finished_at=OLD - DAY)[0]).finished_at
    parents = ended(12, finished_at=at)
    child = live("waiting")
    Dependency.objects.bulk_create(Dependency(parent=pk, child=child) for pk in parents)
    ended(7, finished_at=OLD)
    subject = keeper(database)
    for _ in range(20):
        pause = subject.turn()  # which moves the clock itself
        clock.now += pause + 0.001
    assert {*parents, child} <= set(left())
    assert [] == [pk for pk in left() if pk not in {*parents, child}]


def test_what_was_passed_over_is_looked_at_again_some_time(
    database: Counted, clock: Clock
) -> None:
    [parent] = ended(finished_at=OLD)
    child = live("waiting")
    Dependency.objects.create(parent=parent, child=child)
    ended(1, finished_at=OLD + DAY / 2)
    subject = keeper(database)
    subject.turn()
    Job.objects.filter(pk=child).update(state="succeeded", finished_at=Now())
    assert [parent, child] == left()
    clock.now += LOOK_EVERY * 2
    subject.turn()
    assert [parent, child] == left()
    clock.now += retention.ANEW_EVERY
    subject.turn()
    assert [child] == left()


def test_one_that_finds_only_rows_in_other_hands_leaves_them_the_round(
    database: Counted, second_connection: BaseDatabaseWrapper
) -> None:
    ids = ended(3, "dead", finished_at=OLD)
    also = ended(1, "succeeded", finished_at=OLD)
    second_connection.set_autocommit(False)
    with second_connection.cursor() as other:
        other.execute("SELECT 1 FROM django_jobs_job WHERE state <> 'x' FOR UPDATE")
        assert LOOK_EVERY * 0.79 < keeper(database).turn()
    second_connection.rollback()
    assert {*ids, *also} == set(left())
    assert 1 == database.sent["purge_old_lock"]


def test_a_row_that_cannot_be_deleted_holds_up_no_other_state(
    database: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    [dead] = ended(1, "dead", finished_at=OLD)
    ended(1, "succeeded", finished_at=OLD)
    with database.connection().cursor() as cursor:
        cursor.execute("""
            CREATE FUNCTION no_purge() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
            CREATE TRIGGER no_purge BEFORE DELETE ON django_jobs_job FOR EACH ROW
                WHEN (OLD.state = 'dead') EXECUTE FUNCTION no_purge();
        """)
    try:
        keeper(database).turn()
    finally:
        with database.connection().cursor() as cursor:
            cursor.execute("DROP FUNCTION no_purge CASCADE")
    assert [dead] == left()
    assert ["old jobs cannot be purged (dead): not this one"] == caplog.messages


# Real workers


@pytest.mark.subprocess
def test_a_worker_purges_what_is_old_beside_its_work(fleet: Fleet) -> None:
    old = {"state": "succeeded", "finished_at": "2026-01-01T00:00Z"}
    fleet.put("tests.tasks.ok", "a", count=3000, **old)
    [young] = fleet.put("tests.tasks.ok", "a", state="dead", finished_at="3000-01-01T00:00Z")
    parents = fleet.put("tests.tasks.ok", "a", count=2, **old)
    [child] = fleet.put("tests.tasks.ok", "a", state="scheduled", run_after="3000-01-01T00:00Z")
    for parent in parents:
        fleet.rows(
            "INSERT INTO django_jobs_dependency (parent, child) VALUES (%s, %s)", parent, child
        )
    worker = fleet.started()
    work = fleet.put("tests.tasks.ok", "a", count=100)
    fleet.ring()
    fleet.wait(
        "SELECT count(*) = 0 FROM django_jobs_job WHERE finished_at < '2026-01-02' AND id < %s",
        young,
    )
    fleet.wait(
        "SELECT bool_and(state = 'succeeded') FROM django_jobs_job WHERE id = ANY (%s)", work
    )
    assert {*parents, young, child, *work} == set(fleet.rows("SELECT id FROM django_jobs_job"))
    worker.wait_for_log("purged what was kept long enough: 3000 succeeded")
    assert 0 == fleet.stop(worker)


@pytest.mark.slow
@pytest.mark.subprocess
def test_workers_that_are_killed_while_they_purge_leave_no_half(fleet: Fleet) -> None:
    """Each job has an event and a tie to the next: they go together or not at all."""
    ids = fleet.put(
        "tests.tasks.ok", "a", count=4000, state="dead", finished_at="2025-01-01T00:00Z"
    )
    fleet.rows(
        "INSERT INTO django_jobs_event (job_id, kind, attempt, life)"
        " SELECT id, 'dead', 1, 1 FROM django_jobs_job"
    )
    fleet.rows(
        "INSERT INTO django_jobs_dependency (parent, child)"
        " SELECT id, id + 1 FROM django_jobs_job WHERE id < %s",
        max(ids),
    )
    fleet.rows("""
        CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep(0.001); RETURN OLD; END $$;
        CREATE TRIGGER slowly BEFORE DELETE ON django_jobs_job FOR EACH ROW
            EXECUTE FUNCTION slowly();
    """)
    torn = (
        "SELECT (SELECT count(*) FROM django_jobs_event e WHERE NOT EXISTS"
        " (SELECT FROM django_jobs_job j WHERE j.id = e.job_id))"
        " + (SELECT count(*) FROM django_jobs_job j WHERE NOT EXISTS"
        " (SELECT FROM django_jobs_event e WHERE j.id = e.job_id))"
        " + (SELECT count(*) FROM django_jobs_dependency d WHERE NOT EXISTS"
        " (SELECT FROM django_jobs_job j WHERE j.id = d.parent)"
        " OR NOT EXISTS (SELECT FROM django_jobs_job j WHERE j.id = d.child))"
    )
    left_over = "SELECT count(*) FROM django_jobs_job"
    for _ in range(3):
        before = fleet.value(left_over)
        workers = [fleet.started() for _ in range(2)]
        fleet.wait(f"SELECT ({left_over}) < %s", before)
        for worker in workers:
            worker.kill()
        assert 0 < fleet.value(left_over), "nobody was killed while it purged"
        assert 0 == fleet.value(torn)
    fleet.rows("DROP FUNCTION slowly CASCADE")
    worker = fleet.started()
    fleet.wait(f"SELECT ({left_over}) = 0", seconds=90)
    assert 0 == fleet.value(torn)
    assert 0 == fleet.stop(worker)
    assert "deadlock" not in fleet.logs()
