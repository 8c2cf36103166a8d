"""What a scrape tells of the queues: right, bounded, complete, and in nobody's transaction."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest

from django_jobs.metrics import database, figures
from django_jobs.metrics.connection import ScrapeConnection
from django_jobs.metrics.database import DATABASE, DatabaseCollector
from django_jobs.models import Event, Lease, Worker
from tests.metrics.samples import sample, series
from tests.operations.desk import jobs
from tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)

BACKEND = "django_jobs.backend.JobsBackend"
BY_QUEUE = ("queue_depth", "oldest_ready_seconds", "dead_jobs", "scheduled_jobs", "blocked_jobs")
NOW = timezone.now


def of(name: str, queue: str) -> float | None:
    return sample(f"django_jobs_{name}", queue=queue)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were sent."""
    sent: list[str] = []
    fetch = ScrapeConnection.fetch

    def counted(self: ScrapeConnection, name: str, params: Any) -> Any:
        sent.append(name)
        return fetch(self, name, params)

    monkeypatch.setattr(ScrapeConnection, "fetch", counted)
    return sent


def test_each_state_is_counted_under_its_queue():
    jobs(3, queue="mail")
    jobs(2, queue="mail", state="dead", finished_at=NOW())
    jobs(4, queue="a", state="scheduled", run_after=NOW() + timedelta(hours=1))
    jobs(5, queue="b", state="blocked", limit_key="key")
    jobs(6, queue="a", state="succeeded", finished_at=NOW())
    expected = {"mail": (3, 2, 0, 0), "a": (0, 0, 4, 0), "b": (0, 0, 0, 5)}
    names = ("queue_depth", "dead_jobs", "scheduled_jobs", "blocked_jobs")
    for queue, counts in expected.items():
        assert counts == tuple(of(name, queue) for name in names)
    assert 1 == sample("django_jobs_scrape_ok")


def test_every_series_of_the_settings_is_there_at_0():
    for name in BY_QUEUE:
        for queue in ("default", "imports", "photos", "mail", "a", "b", "c"):
            assert 0 == of(name, queue)


@override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": []}})
@pytest.mark.parametrize("state", ["ready", "dead", "scheduled", "blocked"])
def test_a_queue_that_only_its_jobs_name_is_told(state: str):
    final = NOW() if state == "dead" else None
    jobs(1, queue="elsewhere", state=state, finished_at=final, run_after=NOW())
    assert 1 == of("queue_depth" if state == "ready" else f"{state}_jobs", "elsewhere")


def test_jobs_of_an_alias_that_nobody_has_are_not_told():
    jobs(1, queue="mail", backend="gone")
    assert 0 == of("queue_depth", "mail")


@override_settings(
    TASKS={
        "default": {"BACKEND": BACKEND, "QUEUES": ["mail"]},
        "night": {"BACKEND": BACKEND, "QUEUES": ["mail"]},
    }
)
def test_two_aliases_that_share_a_name_are_told_together():
    jobs(1, queue="mail", enqueued_at=NOW() - timedelta(minutes=30))
    jobs(2, queue="mail", backend="night", enqueued_at=NOW() - timedelta(hours=1))
    assert 3 == of("queue_depth", "mail")
    assert 3600 <= (of("oldest_ready_seconds", "mail") or 0) < 3660


@override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": ["z"]}})
def test_ten_thousand_queues_make_a_bounded_number_of_series():
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_jobs_job (task, queue)"
            " SELECT 'a.b', 'queue-' || n FROM generate_series(1, 10000) n"
        )
    assert figures.MOST_QUEUES == len(series("django_jobs_queue_depth"))
    assert 0 == of("queue_depth", "z")  # those of the settings go first
    asked = figures.Wanted(("default",), ())
    assert figures.MOST_QUEUES == len(figures.read(ScrapeConnection("default"), asked).queues)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_counts_end_at_a_bound(count: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(figures, "COUNTED", 4)
    jobs(count, queue="mail")
    jobs(count, queue="mail", state="dead", finished_at=NOW())
    assert (min(count, 4),) * 2 == (of("queue_depth", "mail"), of("dead_jobs", "mail"))


def age(**columns: Any) -> float:
    jobs(1, queue="mail", **columns)
    found = of("oldest_ready_seconds", "mail")
    assert found is not None
    return found


def test_the_oldest_counts_from_its_enqueue():
    assert 3600 <= age(enqueued_at=NOW() - timedelta(hours=1)) < 3660


def test_the_oldest_counts_from_its_own_time_when_that_was_later():
    before = NOW() - timedelta(hours=1)
    assert 60 <= age(enqueued_at=before, run_after=NOW() - timedelta(minutes=1)) < 120


def test_the_oldest_counts_from_its_latest_requeue():
    [pk] = jobs(1, queue="mail", enqueued_at=NOW() - timedelta(hours=1), life=2)
    Event.objects.create(job_id=pk, kind="requeued", attempt=0, life=2)
    assert 0 <= (of("oldest_ready_seconds", "mail") or 0) < 60


def test_one_that_starves_behind_a_higher_priority_is_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(figures, "COUNTED", 3)
    jobs(1, queue="mail", priority=-5, enqueued_at=NOW() - timedelta(hours=1))
    jobs(9, queue="mail", priority=5)
    assert 3600 <= (of("oldest_ready_seconds", "mail") or 0) < 3660


def test_a_time_that_never_comes_breaks_no_scrape():
    jobs(1, queue="mail")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET run_after = 'infinity'")
    assert 0 == of("oldest_ready_seconds", "mail")
    assert 1 == sample("django_jobs_scrape_ok")


def test_the_fleet_is_told():
    beats = {"backend": "default", "name": "h", "pid": 1, "version": "0", "capacity": 6}
    long_ago = NOW() - timedelta(hours=1)
    for extra in ({}, {"state": "stopped"}, {"seen_at": long_ago}, {"loop_at": long_ago}):
        Worker.objects.create(id=uuid4(), **beats, **extra)
    [one, two] = jobs(2, state="running", attempt=1)
    worker = uuid4()
    Lease.objects.create(job_id=one, worker=worker, expires_at=NOW())
    Lease.objects.create(job_id=two, worker=worker, expires_at=NOW(), timed_out_at=NOW())
    names = ("live_workers", "running_jobs", "stuck_runs", "notification_queue_ratio")
    assert (1, 2, 1, 0) == tuple(sample(f"django_jobs_{name}") for name in names)


def test_a_transaction_that_holds_back_cleaning_is_told(second_connection: Any):
    with second_connection.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT pg_sleep(0.3)")  # its snapshot is that of this statement
        assert 0.3 <= (sample("django_jobs_oldest_snapshot_seconds") or 0) < 60
        cursor.execute("ROLLBACK")


def test_registering_asks_no_database(asked: list[str]):
    registry = CollectorRegistry(auto_describe=True)
    registry.register(DatabaseCollector())
    assert [] == asked
    generate_latest(registry)
    assert ["scrape"] == asked


def test_what_is_described_is_what_is_collected():
    described = {(each.name, each.type) for each in DATABASE.describe()}
    assert described == {(each.name, each.type) for each in DATABASE.collect()}


def test_a_hundred_scrapes_at_once_send_one_statement(asked: list[str]):
    jobs(1, queue="mail")
    barrier, seen = Barrier(100), []

    def scrape() -> None:
        barrier.wait(20)
        seen.append(of("queue_depth", "mail"))

    for _ in range(3):
        threads = [Thread(target=scrape) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    wait_for(lambda: len(seen) == 300)
    assert ["scrape"] == asked
    assert 1 == seen[-1]


def test_an_answer_serves_for_a_while_and_no_longer(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(figures, "_pause", lambda _: 1000.0)
    assert (0, 0) == (of("queue_depth", "mail"), of("queue_depth", "mail"))
    jobs(1, queue="mail")
    assert 0 == of("queue_depth", "mail")
    DATABASE._sources["default"]._next_at = 0.0
    assert 1 == of("queue_depth", "mail")
    assert ["scrape"] * 2 == asked


def test_a_slow_statement_is_sent_more_seldom():
    assert figures.FRESH_SECONDS == figures._pause(0.001)
    assert 10.0 == figures._pause(0.2)
    assert 60.0 == figures._pause(2.0)


def test_a_scrape_is_in_no_transaction_of_the_caller():
    with transaction.atomic():
        jobs(1, queue="mail")
        assert 0 == of("queue_depth", "mail")  # not committed: another connection asks
        with connection.cursor() as cursor:  # and the caller's is as it was
            cursor.execute("SELECT count(*) FROM django_jobs_job")
            assert (1,) == cursor.fetchone()


def test_a_scrape_in_a_broken_transaction_answers():
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        with pytest.raises(Exception, match="division by zero"), connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
        assert 0 == of("queue_depth", "mail")
        raise ZeroDivisionError


def test_no_connection_is_kept_between_scrapes():
    of("queue_depth", "mail")
    with connection.cursor() as cursor:
        wait_for(lambda: _none_left(cursor), seconds=5)


def _none_left(cursor: Any) -> bool:
    cursor.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = 'django_jobs metrics' AND datname = current_database()"
    )
    return bool(cursor.fetchone() == (0,))


def broken(self: ScrapeConnection, name: str, params: Any) -> Any:
    raise OSError("the line is dead")


def test_the_last_values_serve_while_the_database_does_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "django_jobs.metrics")
    jobs(2, queue="mail")
    assert 2 == of("queue_depth", "mail")
    with monkeypatch.context() as patch:
        patch.setattr(ScrapeConnection, "fetch", broken)
        for _ in range(3):
            DATABASE._sources["default"]._next_at = 0.0
            assert (0, 2) == (sample("django_jobs_scrape_ok"), of("queue_depth", "mail"))
    [told] = caplog.records
    assert "metrics: database 'default': the line is dead" == told.getMessage()
    DATABASE._sources["default"]._next_at = 0.0
    assert 1 == sample("django_jobs_scrape_ok")


def test_without_any_answer_no_false_zero_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ScrapeConnection, "fetch", broken)
    assert 0 == sample("django_jobs_scrape_ok")
    assert {} == series("django_jobs_queue_depth", "django_jobs_live_workers")


def test_a_database_that_hangs_holds_up_no_scrape(monkeypatch: pytest.MonkeyPatch):
    hung: list[float] = []

    def hang(self: ScrapeConnection, name: str, params: Any) -> Any:
        hung.append(time.monotonic())
        time.sleep(3)
        raise OSError("cut")

    jobs(2, queue="mail")
    assert 2 == of("queue_depth", "mail")
    monkeypatch.setattr(ScrapeConnection, "fetch", hang)
    monkeypatch.setattr(figures, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(database, "PATIENCE_SECONDS", 0.7)
    DATABASE._sources["default"]._next_at = 0.0
    for _ in range(2):
        begun = time.monotonic()
        text = generate_latest(_only(DATABASE)).decode()
        assert time.monotonic() - begun < database.PATIENCE_SECONDS + 0.5
        assert "django_jobs_scrape_ok 0.0" in text
        assert 'django_jobs_queue_depth{queue="mail"} 2.0' in text
    assert 1 == len(hung)  # one at a time
    wait_for(lambda: DATABASE._sources["default"]._since is None)


def _only(collector: DatabaseCollector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def test_a_statement_without_an_answer_is_cut(monkeypatch: pytest.MonkeyPatch):
    cut: list[bool] = []
    monkeypatch.setattr(figures, "HUNG_SECONDS", 0.0)
    monkeypatch.setattr(ScrapeConnection, "hang_up", lambda _: cut.append(True))
    source = figures.Source("default")
    source._since = time.monotonic() - 1
    source.ask(figures.Wanted((), ()))
    assert [True] == cut


def test_hanging_up_breaks_the_line_under_who_waits():
    line = ScrapeConnection("default")
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            with line._opened() as opened:
                opened.execute("SELECT pg_sleep(60)")
        except Exception as error:  # noqa: BLE001 - which one it is the driver says
            ended.append(error)

    thread = Thread(target=wait)
    thread.start()
    wait_for(lambda: line._wrapper is not None and line._wrapper.connection is not None)
    time.sleep(0.2)
    line.hang_up()
    thread.join(10)
    assert 1 == len(ended)
    with connection.cursor() as cursor:  # the server does not see that nobody waits any more
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query = 'SELECT pg_sleep(60)'"
        )


def test_the_statement_has_a_time_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("django_jobs.metrics.connection.load", lambda _: "SELECT pg_sleep(60)")
    monkeypatch.setattr("django_jobs.metrics.connection.STATEMENT_SECONDS", 0.1)
    with pytest.raises(Exception, match="statement timeout"):
        ScrapeConnection("default").fetch("scrape", {})


@override_settings(
    TASKS={"default": {"BACKEND": "django_jobs.backend.JobsBackend", "OPTIONS": {"database": 7}}}
)
def test_a_setting_that_cannot_be_used_breaks_no_scrape():
    assert 1 == sample("django_jobs_scrape_ok")
    assert {} == series("django_jobs_queue_depth")
