"""Firing: one of many wins, nothing is lost or doubled, nobody fires for a past not its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

import psycopg
import pytest
from croniter import croniter
from django.db import connection

import django_jobs.sql
from django_jobs import Limit, Requires, task
from django_jobs.compat import task_enqueued
from django_jobs.conf import Options
from django_jobs.models import Job, Placement, Schedule, Worker
from django_jobs.operations.fire import Due, Firing, due_schedules, fire, firing
from django_jobs.operations.scheduled_job import scheduled_job
from django_jobs.worker import connection as connection_module
from django_jobs.worker import timetable as module
from django_jobs.worker.timetable import Timetable
from tests.aliases import database_time
from tests.operations.desk import jobs
from tests.operations.ended import GATE, somebody_waits
from tests.operations.timetables import entries, occurrences, put_cron, row, set_row, timetables
from tests.processes import wait_for
from tests.tasks import ok

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
ALL: dict[str, dict[str, Any]] = {"tick": {"catch_up": "all"}}
TICK: dict[str, dict[str, Any]] = {"tick": {}}


@task(unique="only")
def only_one() -> None:
    pass


@task(unique="only", on_conflict="replace")
def replacing() -> None:
    pass


@task(unique="only", on_conflict="raise")
def raising() -> None:
    pass


@task(
    queue_name="mail",
    priority=3,
    max_attempts=7,
    timeout=9,
    expires_after=600,
    limit=Limit("customer:{customer}", size=2, rate="60/m"),
    requires=Requires(labels={"gpu"}),
    metadata={"a": 1},
    retry_on=(OSError,),
    idempotent=False,
)
def all_options(value: int, *, customer: int) -> None:
    pass


@task
def _later() -> None:
    pass


_later = _later.using(run_after=timedelta(minutes=5))


@task(unique=lambda: 1 / 0)  # type: ignore[arg-type]
def broken_key() -> None:
    pass


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are righted at each call."""
    monkeypatch.setattr(module, "PUT_AGAIN", 0.0)


def minute(back: int = 0) -> datetime:
    """Return a full minute of the database's clock, ``back`` minutes ago."""
    return database_time().replace(second=0, microsecond=0) - back * MINUTE


@contextmanager
def steady() -> Iterator[None]:
    """Let no minute begin meanwhile: wait for one when it is near."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_sleep(60.1 - extract(second FROM clock_timestamp()))"
            " WHERE extract(second FROM clock_timestamp()) > 50"
        )
    begun = minute()
    yield
    assert begun == minute(), "The minute ended too soon."


def late(worker: Timetable, minutes: int = 3, name: str = "tick") -> datetime:
    """Write the entries down and let one be due since some minutes; return since when."""
    worker.put()
    due = minute(minutes)
    set_row(name, next_at=due)
    return due


def due_now(worker: Timetable) -> Due:
    [due] = due_schedules(worker.digests, later=[], backend="default", database=worker._database)
    return due


def by_hand(worker: Timetable, due: Due, what: Firing | None = None) -> int:
    """Fire as a worker that has looked already; return how many jobs it made."""
    entry = worker._entries[due.name]
    _task, new = scheduled_job(entry, backend="default")
    what = what or firing(entry, due.next_at, due.now)
    fired = fire(due, what, new, placement=0, backend="default", database=worker._database)
    return len(fired.jobs)


@contextmanager
def at_the_gate(
    name: str, lock: str, call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Future[Any]]:
    """Run ``call`` up to where its statement has its snapshot, but has locked nothing.

    The body runs while it waits there; after the body it goes on.
    """
    real = django_jobs.sql.load
    wait = f"AND (SELECT 1 FROM pg_advisory_xact_lock({GATE})) = 1\n"
    assert 1 == real(name).count(lock)
    gated = real(name).replace(lock, wait + lock)
    with connection.cursor() as cursor, ThreadPoolExecutor(1) as threads:
        cursor.execute("SELECT pg_advisory_lock(%s)", [GATE])
        monkeypatch.setattr(
            connection_module, "load", lambda asked: gated if asked == name else real(asked)
        )
        try:
            future = threads.submit(call)
            wait_for(somebody_waits, what="Nobody came to the gate.")
            monkeypatch.setattr(connection_module, "load", real)
            yield future
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [GATE])


# Catching up.


def test_run_once_makes_one_job_for_the_latest_and_tells_of_the_newest_missed() -> None:
    with timetables(TICK) as [worker], steady():
        late(worker, 60)
        assert worker.fire()
        assert [minute()] == occurrences()
        now = row()
        assert (minute(), minute() + MINUTE, minute(1), "late") == (
            now.last_at, now.next_at, now.missed_at, now.missed_why,
        )  # fmt: skip
        assert Job.objects.get().pk == now.last_job
        assert not worker.fire()


def test_one_that_is_in_time_has_missed_nothing() -> None:
    with timetables(TICK) as [worker], steady():
        late(worker, 0)
        assert worker.fire()
        assert ([minute()], None, None) == (occurrences(), row().missed_at, row().missed_why)


def test_all_makes_a_job_for_each_oldest_first() -> None:
    with timetables(ALL) as [worker], steady():
        due = late(worker, 60)
        assert worker.fire()
        assert [due + n * MINUTE for n in range(61)] == occurrences()
        assert (None, minute()) == (row().missed_at, row().last_at)


def test_all_beyond_its_bound_keeps_the_newest() -> None:
    with timetables({"tick": {"catch_up": "all", "catch_up_limit": 10}}) as [worker], steady():
        late(worker, 60)
        assert worker.fire()
        assert [minute(back) for back in range(9, -1, -1)] == occurrences()
        assert (minute(10), "late") == (row().missed_at, row().missed_why)


def test_skip_fires_the_latest_within_its_grace() -> None:
    with timetables({"tick": {"catch_up": "skip"}}) as [worker], steady():
        late(worker, 5)
        assert worker.fire()
        assert [minute()] == occurrences()


def test_skip_fires_nothing_beyond_its_grace() -> None:
    said = {"tick": {"catch_up": "skip", "grace": 60, "schedule": "0 0 1 1 *"}}
    with timetables(said) as [worker]:
        worker.put()
        new_year = minute().replace(month=1, day=1, hour=0, minute=0)
        set_row(next_at=new_year)
        assert not worker.fire()
        now = row()
        assert ([], new_year, "late") == (occurrences(), now.missed_at, now.missed_why)
        assert now.next_at == new_year.replace(year=new_year.year + 1)
        assert (None, None) == (now.last_at, now.fired_at)


def test_the_latest_of_three_days_of_minutes_is_found_in_a_handful_of_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    for name in ("get_next", "get_prev"):
        real = getattr(croniter, name)

        def counted(self: Any, *args: Any, real: Any = real, name: str = name) -> Any:
            calls.append(name)
            return real(self, *args)

        monkeypatch.setattr(croniter, name, counted)
    entry = entries(tick={"timezone": "Europe/Rome"})["tick"]
    now = datetime.fromisoformat("2026-06-10T12:00:30+00:00")
    found = firing(entry, now - timedelta(days=3), now)
    assert [now.replace(second=0)] == found.occurrences
    assert len(calls) <= 5, calls


def test_a_long_gap_costs_no_more_than_its_bound() -> None:
    entry = entries(tick={"catch_up": "all", "catch_up_limit": 5})["tick"]
    now = datetime.fromisoformat("2026-06-10T12:00:30+00:00")
    found = firing(entry, now - timedelta(days=3650), now)
    assert 5 == len(found.occurrences)


# The election.


def test_of_two_that_saw_the_same_row_one_makes_the_job() -> None:
    with timetables(TICK, TICK) as [one, two], steady():
        late(one)
        first, second = due_now(one), due_now(two)
        assert [1, 0] == [by_hand(one, first), by_hand(two, second)]
        assert [minute()] == occurrences()


def test_one_that_was_overtaken_inside_its_statement_makes_no_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its snapshot still shows the old row; the lock shows the new one."""
    with timetables(TICK, TICK) as [one, two], steady():
        late(one)
        first, second = due_now(one), due_now(two)
        with at_the_gate(
            "fire", "FOR NO KEY UPDATE SKIP", lambda: by_hand(one, first), monkeypatch
        ) as slow:
            assert 1 == by_hand(two, second)
        assert 0 == slow.result()
        assert [minute()] == occurrences()


def test_two_at_the_same_time_make_one_job_and_nobody_waits() -> None:
    """The first is inside its statement: it has the row and waits for a key."""
    with timetables(TICK, TICK) as [one, two], steady():
        late(one)
        first, second = due_now(one), due_now(two)
        other = two._database.connection()
        with other.transaction():  # what a firing that is under way looks like
            other.execute("SELECT FROM django_jobs_schedule FOR NO KEY UPDATE")
            assert 0 == by_hand(one, first)
        assert 1 == by_hand(two, second)
        assert 0 == by_hand(one, first)
        assert [minute()] == occurrences()


def test_a_firing_that_is_rolled_back_is_made_by_another() -> None:
    with timetables(TICK, TICK) as [one, two], steady():
        late(one)
        first, second = due_now(one), due_now(two)
        mine = one._database.connection()
        with mine.transaction(force_rollback=True):
            assert 1 == by_hand(one, first)
            assert 0 == by_hand(two, second)  # skipped: it cannot know yet
        assert [] == occurrences()
        assert 1 == by_hand(two, second)


def test_one_that_was_suspended_after_its_look_reckons_anew() -> None:
    with timetables({"tick": {"catch_up": "skip"}}) as [worker]:
        late(worker, 0)
        due = due_now(worker)
        old = due._replace(now=due.now - timedelta(seconds=6))
        assert 0 == by_hand(worker, old)
        assert 1 == by_hand(worker, due)


def test_the_clock_that_counts_is_the_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    with timetables(TICK) as [worker], steady():
        late(worker)
        monkeypatch.setattr("time.time", lambda: 0.0)
        assert worker.fire()
        assert [minute()] == occurrences()


def test_nothing_fires_again_when_the_clock_goes_back() -> None:
    with timetables(TICK) as [worker]:
        worker.put()
        set_row(next_at=minute(-60), last_at=minute(-59))
        assert not worker.fire()
        assert [] == occurrences()


def test_a_time_that_a_hand_has_put_between_fires_nothing() -> None:
    with timetables({"tick": {"schedule": "0 0 1 1 *"}}) as [worker]:
        worker.put()
        set_row(next_at=minute(1))
        assert not worker.fire()
        assert (1, None) == (row().next_at.month, row().missed_at)  # type: ignore[union-attr]


# Versions.


def test_a_new_entry_is_due_after_now() -> None:
    with timetables(ALL) as [worker]:
        worker.put()
        assert not worker.fire()
        assert row().next_at > database_time() - MINUTE  # type: ignore[operator]
        assert (None, []) == (row().missed_at, occurrences())


@pytest.mark.parametrize("change", [{"schedule": "*/1 * * * 0-6,1"}, {"timezone": "Europe/Rome"}])
def test_an_edited_rule_does_not_fire_for_its_past(change: dict[str, Any]) -> None:
    with timetables(ALL, {"tick": {"catch_up": "all", **change}}) as [old, new]:
        late(old)
        new.put()
        assert not new.fire()
        assert not old.fire()
        assert [] == occurrences()


def test_what_was_missed_is_made_up_for_with_the_new_arguments() -> None:
    """The rule is the same: a run that a deploy delays must not be lost."""
    with timetables(TICK, {"tick": {"args": [7], "queue": "mail"}}) as [old, new], steady():
        late(old)
        new.put()
        assert new.fire()
        assert [([7], "mail")] == [(job.args, job.queue) for job in Job.objects.all()]


def test_an_older_worker_does_not_fire_what_a_newer_one_has_changed() -> None:
    with timetables(TICK, {"tick": {"args": [7]}}) as [old, new]:
        late(old)
        seen = due_now(old)
        new.put()
        assert 0 == by_hand(old, seen)
        old.put()
        assert not old.fire()
        assert new.fire()
        assert [[7]] == [job.args for job in Job.objects.all()]


def test_after_a_rollback_the_one_that_started_last_counts() -> None:
    with timetables(TICK, {"tick": {"args": [7]}}, TICK) as [_old, new, back]:
        late(new)
        back.put()
        new.put()
        assert not new.fire()
        assert back.fire()
        assert [[]] == [job.args for job in Job.objects.all()]


def test_an_older_worker_that_was_overtaken_inside_its_statement_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions: list[dict[str, Any]] = [{"tick": {"args": [number]}} for number in range(3)]
    with timetables(*versions) as [first, second, third]:
        first.put()
        gate = ("put_schedules", "ORDER BY s.id FOR NO KEY UPDATE")
        with at_the_gate(*gate, second.put, monkeypatch) as slow:
            assert third.put()
        assert not slow.result()
        assert third.digests == [row().digest]


def test_which_worker_started_last_survives_the_loss_of_its_row() -> None:
    """It registers again, and is no younger for that."""
    with timetables(TICK, {"tick": {"args": [7]}}) as [old, new]:
        old.put()
        new.put()
        known = Worker.objects.filter(pk=old._worker).values().get()
        Worker.objects.all().delete()
        Worker.objects.create(**known | {"started_at": database_time()})
        assert not old.put()
        set_row(next_at=minute(2))
        assert new.fire()


def test_a_worker_without_its_row_writes_nothing_and_tries_again() -> None:
    with timetables(TICK) as [worker]:
        Worker.objects.all().delete()
        assert not worker.put()
        assert worker.is_new
        assert not Schedule.objects.exists()


def test_a_renamed_entry_is_new_and_the_old_one_stops() -> None:
    renamed: dict[str, dict[str, Any]] = {"tock": {"catch_up": "all"}}
    with timetables(ALL, renamed) as [old, new]:
        late(old)
        new.put()
        assert not new.fire()
        assert not old.fire()
        assert row("tick").gone_at is not None
        assert [] == occurrences()


def test_an_entry_that_comes_back_does_not_fire_for_the_time_between() -> None:
    with timetables(ALL, {}, ALL) as [first, without, again]:
        late(first)
        without.put()
        assert row().gone_at is not None
        again.put()
        assert row().gone_at is None
        assert not again.fire()
        assert not first.fire()
        assert [] == occurrences()


def test_the_last_entry_stops_when_it_is_taken_out() -> None:
    with timetables(TICK, {}) as [first, without]:
        first.put()
        assert without.put()
        assert row().gone_at is not None


def test_one_that_the_settings_switch_off_does_not_fire_for_that_time() -> None:
    off = {"tick": {"catch_up": "all", "enabled": False}}
    with timetables(ALL, off, ALL) as [first, second, third]:
        late(first)
        second.put()
        assert (False, None) == (row().enabled, row().next_at)
        assert not second.fire()
        assert not first.fire()
        third.put()
        assert row().next_at is not None
        assert not third.fire()
        assert [] == occurrences()


def test_rows_that_a_hand_has_removed_come_back() -> None:
    with timetables({"tick": {}, "tock": {}}) as [worker]:
        worker.put()
        Schedule.objects.filter(name="tick").delete()
        assert worker.put()
        assert not worker.put()
        assert ["tick", "tock"] == sorted(Schedule.objects.values_list("name", flat=True))


def test_a_worker_that_was_suspended_before_it_wrote_fires_nothing_for_that_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with timetables(ALL) as [worker]:
        real = worker._database.fetch

        def frozen(name: str, params: Any) -> Any:
            rows = real(name, params)
            return [(rows[0][0] - timedelta(hours=1),)] if name == "clock" else rows

        monkeypatch.setattr(worker._database, "fetch", frozen)
        worker.put()
        assert row().next_at is None
        assert not worker.fire()
        assert row().next_at > database_time()  # type: ignore[operator]
        assert [] == occurrences()


def test_a_row_that_an_operator_holds_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with timetables(TICK, {"tick": {"args": [7]}}, {}) as [old, new, third]:
        old.put()
        other = third._database.connection()
        with other.transaction():
            other.execute("SELECT FROM django_jobs_schedule FOR UPDATE")
            assert not new.put()
        assert new.put()
    assert [] == [line for line in caplog.records if line.levelno >= logging.WARNING]


def test_a_version_whose_workers_are_gone_hands_its_rows_to_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release that was tried on one host, and taken back without a restart of the others."""
    with timetables(TICK, {"tick": {"args": [7]}}) as [old, new]:
        Worker.objects.update(cron=True)
        old.put()
        new.put()
        monkeypatch.setattr(module, "INHERIT_AFTER", -1.0)
        assert [False, False] == [again(old), again(old)]  # its worker lives
        Worker.objects.filter(pk=new._worker).update(state="stopped")
        assert [False, True] == [again(old), again(old)]  # not when it is seen first
        set_row(next_at=minute(2))
        assert not new.fire()
        assert old.fire()


def test_an_outage_that_silences_every_worker_hands_nothing_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with timetables(TICK, {"tick": {"args": [7]}}) as [old, new]:
        Worker.objects.update(cron=True)
        old.put()
        new.put()
        Worker.objects.filter(pk=new._worker).update(seen_at=minute(60))
        monkeypatch.setattr(module, "INHERIT_AFTER", -1.0)
        assert not again(old)
        monkeypatch.setattr(module, "PUT_AGAIN", 5.0)
        old._put_at = monotonic() - 11.0  # for so long it could not ask
        assert not old.put()
        assert new.digests == [row().digest]


def again(worker: Timetable) -> bool:
    """Put at the very moment at which it may."""
    module.PUT_AGAIN = 5.0
    worker._put_at = monotonic()
    return worker.put()


# Overlap and keys.


@pytest.mark.parametrize("state", ["ready", "waiting", "blocked", "scheduled", "running"])
def test_while_its_last_job_is_live_an_entry_that_skips_makes_none(state: str) -> None:
    with timetables({"tick": {"overlap": "skip"}}) as [worker], steady():
        late(worker, 0)
        assert worker.fire()
        Job.objects.update(state=state, attempt=1, run_after=database_time())
        set_row(next_at=minute())
        assert not worker.fire()
        now = row()
        assert (minute(), "overlap", 1) == (now.missed_at, now.missed_why, Job.objects.count())
        assert now.next_at == minute() + MINUTE


@pytest.mark.parametrize("state", ["succeeded", "dead", "cancelled"])
def test_once_its_last_job_has_ended_it_fires(state: str) -> None:
    with timetables({"tick": {"overlap": "skip"}}) as [worker]:
        late(worker, 0)
        assert worker.fire()
        Job.objects.update(state=state, finished_at=database_time())
        set_row(next_at=minute())
        assert worker.fire()


def test_once_its_last_job_is_purged_it_fires() -> None:
    with timetables({"tick": {"overlap": "skip"}}) as [worker]:
        late(worker, 0)
        assert worker.fire()
        Job.objects.all().delete()
        set_row(next_at=minute())
        assert worker.fire()


def test_what_skips_makes_up_for_one_only() -> None:
    with timetables({"tick": {"overlap": "skip", "catch_up": "all"}}) as [worker], steady():
        late(worker, 30)
        assert worker.fire()
        assert [minute()] == occurrences()


def test_where_overlap_is_allowed_jobs_may_pile_up() -> None:
    with timetables(TICK) as [worker]:
        for _ in range(3):
            late(worker, 0)
            assert worker.fire()
        assert 3 == Job.objects.count()


@pytest.mark.parametrize("name", ["only_one", "replacing", "raising"])
def test_a_live_job_of_the_same_key_is_left_and_told(name: str) -> None:
    with timetables({"tick": {"task": f"{__name__}.{name}"}}) as [worker], steady():
        [there] = jobs(unique_key="only")
        late(worker, 0)
        assert not worker.fire()
        assert ([there], minute(), "unique") == (
            [job.pk for job in Job.objects.all()], row().missed_at, row().missed_why,
        )  # fmt: skip
        assert "ready" == Job.objects.get().state


def test_of_several_occurrences_with_one_key_the_oldest_gets_the_job() -> None:
    said = {"tick": {"task": f"{__name__}.only_one", "catch_up": "all"}}
    with timetables(said) as [worker], steady():
        due = late(worker, 3)
        assert worker.fire()
        assert ([due], minute(), "unique") == (
            occurrences(), row().missed_at, row().missed_why,
        )  # fmt: skip


def test_a_key_that_a_transaction_holds_is_not_waited_for_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, dict[str, Any]] = {"tick": {"task": f"{__name__}.only_one"}, "tock": {}}
    with timetables(said, {}) as [worker, stranger], steady():
        late(worker, 0)
        set_row("tock", next_at=minute())
        other = stranger._database.connection()
        worker._database.connection().execute("SET lock_timeout = 0")
        with other.transaction(force_rollback=True):
            other.execute(
                "INSERT INTO django_jobs_job (task, args, kwargs, unique_key)"
                " VALUES ('x', '[]', '{}', 'only')"
            )
            assert worker.fire()  # the other entry
            assert (["tick"], [minute()]) == (worker.later, occurrences("tock"))
            assert not worker.fire()
        [line] = [line for line in caplog.records if line.levelno >= logging.WARNING]
        assert "schedule tick cannot be fired: a transaction holds its unique key" == line.message
        monkeypatch.setattr(module, "monotonic", lambda: 1e12)
        assert worker.fire()
        assert [minute()] == occurrences()


# The job.


def test_the_job_is_that_of_an_ordinary_enqueue() -> None:
    said = {"task": f"{__name__}.all_options", "args": [1], "kwargs": {"customer": 7}}
    with timetables({"tick": said}) as [worker]:
        late(worker, 0)
        assert worker.fire()
    fired: dict[str, Any] = dict(Job.objects.values().get())
    all_options.enqueue(1, customer=7)
    plain: dict[str, Any] = dict(Job.objects.values().latest("id"))
    for name in ("id", "schedule", "scheduled_for", "enqueued_at", "run_after", "expires_at"):
        left, right = fired.pop(name), plain.pop(name)
        assert (left is None) == (right is None) or name in ("schedule", "scheduled_for"), name
    assert plain == fired
    assert ["gpu"] == Placement.objects.get(pk=plain["placement"]).labels


def test_a_span_to_wait_counts_from_the_firing() -> None:
    with timetables({"tick": {"task": f"{__name__}._later"}}) as [worker]:
        late(worker, 0)
        assert worker.fire()
        job = Job.objects.get()
        assert "scheduled" == job.state
        assert 299 < (job.run_after - job.enqueued_at).total_seconds() < 301  # type: ignore[operator]


def test_queue_and_priority_of_the_entry_go_first() -> None:
    said = {"task": f"{__name__}.all_options", "args": [1], "kwargs": {"customer": 7}}
    with timetables({"tick": {**said, "queue": "imports", "priority": -5}}) as [worker]:
        late(worker, 0)
        worker.fire()
        assert ("imports", -5) == Job.objects.values_list("queue", "priority").get()


def test_the_schedule_of_a_job_is_no_part_of_its_result() -> None:
    with timetables(TICK) as [worker]:
        late(worker, 0)
        worker.fire()
    result = ok.get_result(str(Job.objects.get().pk))
    assert not hasattr(result, "schedule")
    assert {} == (result.metadata or {})


def test_each_job_is_announced_once_after_the_commit_and_losers_are_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[tuple[str, bool]] = []

    def hear(task_result: Any, **_: Any) -> None:
        heard.append((task_result.id, Job.objects.filter(pk=task_result.id).exists()))

    task_enqueued.connect(hear)
    try:
        with timetables(ALL, ALL) as [one, two], caplog.at_level(logging.DEBUG):
            late(one, 2)
            two.put()
            assert one.fire()
            assert not two.fire()
    finally:
        task_enqueued.disconnect(hear)
    made = Job.objects.order_by("id").values_list("pk", flat=True)
    assert [(str(pk), True) for pk in made] == heard
    assert [] == [line for line in caplog.records if line.levelno >= logging.WARNING]


# What is broken.


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tests.operations.test_fire.broken_key", "division by zero"),
        ("tests.operations.test_fire.not_there", "No task is known"),
        ("tests.operations.test_fire.all_options", "argument"),
    ],
)
def test_one_that_cannot_be_fired_is_told_once_and_stops_no_other(
    name: str, words: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with timetables({"bad": {"task": name}, "tick": {}}) as [worker], steady():
        late(worker, 0)
        set_row("bad", next_at=minute())
        assert worker.fire()
        assert ([minute()], []) == (occurrences("tick"), occurrences("bad"))
        assert ["bad"] == worker.later
        now = monotonic()
        monkeypatch.setattr(module, "monotonic", lambda: now + 11)
        assert [] == worker.later
        assert not worker.fire()
        [line] = [line for line in caplog.records if line.levelno >= logging.WARNING]
        assert "schedule bad cannot be fired: " in line.message
        assert words in line.message
        assert row("bad").next_at == minute()  # it is made up for once it can be


def test_a_trigger_of_the_site_that_refuses_one_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no mail today'; END $$;"
            "CREATE TRIGGER no BEFORE INSERT ON django_jobs_job FOR EACH ROW "
            "WHEN (NEW.queue = 'mail') EXECUTE FUNCTION no()"
        )
        try:
            with timetables({"bad": {"queue": "mail"}, "tick": {}}) as [worker]:
                late(worker, 0)
                due = minute()
                set_row("bad", next_at=due)
                assert worker.fire()
                assert (1, due) == (len(occurrences("tick")), row("bad").next_at)
        finally:
            cursor.execute("DROP TRIGGER no ON django_jobs_job; DROP FUNCTION no()")
    assert "schedule bad cannot be fired: no mail today" in caplog.text


def test_a_database_that_goes_away_is_for_the_thread_to_mend() -> None:
    with timetables(TICK) as [worker]:
        late(worker, 0)
        pid = worker._database.connection().info.backend_pid
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        with pytest.raises(psycopg.OperationalError):
            worker.fire()
        assert worker.fire()


def test_the_digest_tells_every_change() -> None:
    said: list[dict[str, Any]] = [
        {}, {"task": "tests.tasks.boom"}, {"schedule": "0 3 * * *"}, {"timezone": "Europe/Rome"},
        {"args": [1]}, {"args": ["1"]}, {"kwargs": {"value": 1}}, {"queue": "mail"},
        {"priority": 1}, {"catch_up": "all"}, {"catch_up_limit": 5}, {"grace": 90},
        {"overlap": "skip"}, {"enabled": False},
    ]  # fmt: skip
    digests = [entries(tick=each)["tick"].digest for each in said]
    digests.append(entries(tock={})["tock"].digest)
    assert len(said) + 1 == len(set(digests))
    assert digests[0] == entries(tick={"queue": None})["tick"].digest


def test_options_are_read_from_the_settings(settings: Any) -> None:
    put_cron(settings, tick={})
    assert ["tick"] == list(Options("default").cron)
