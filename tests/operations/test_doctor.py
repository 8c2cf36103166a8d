"""``jobs doctor`` finds each fault, says a cure, and changes nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import Error, OperationalError, connection, connections
from django.db.models.functions import Now

from django_jobs.models import Lease, Limit, Placement, Queue, Schedule
from django_jobs.operations import doctor
from django_jobs.operations.doctor import CHECKS, Exam, Finding, examine, server, storage
from django_jobs.operations.doctor.storage import Holder
from tests.aliases import put_options
from tests.management.test_jobs import jobs
from tests.test_docs import PACKAGE, first_column
from tests.worlds import add, register

EXAM = Exam("default", "default")


def findings(name: str) -> list[Finding]:
    """What one check finds."""
    with EXAM.bounded():
        return list(CHECKS[name](EXAM))


def told(name: str) -> list[tuple[str, str]]:
    """The level and the sentence of each finding of one check."""
    return [(each.level, each.sentence) for each in findings(name)]


def execute(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text)


def ago(seconds: int) -> Any:
    """A time by the database's clock."""
    return Now() - timedelta(seconds=seconds)


# all of it


@pytest.mark.django_db
def test_an_error_ends_with_1_and_a_warning_only_when_asked():
    assert 1 == jobs("doctor")[0]  # no worker is live
    register()
    Queue.objects.create(name="mail", paused=True)
    add("mail")
    assert [0, 3] == [jobs("doctor")[0], jobs("doctor", "--strict")[0]]


@pytest.mark.django_db
def test_json_has_a_finding_a_line_with_stable_keys():
    lines = [json.loads(line) for line in jobs("doctor", "--json")[1].splitlines()]
    assert {"check", "level", "sentence", "cure", "facts"} == set(lines[0])
    assert {"ok", "warning", "error"} >= {line["level"] for line in lines}
    assert all(line["cure"] for line in lines if line["level"] != "ok")


@pytest.mark.django_db(transaction=True)
def test_it_cannot_write_and_leaves_the_session_as_it_was():
    with pytest.raises(Error, match="read-only"), EXAM.bounded():
        execute("DELETE FROM django_jobs_worker")
    list(examine(EXAM))
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout'), current_setting('jit')")
        before = cursor.fetchone()
        cursor.execute("RESET ALL")
        cursor.execute("SELECT current_setting('statement_timeout'), current_setting('jit')")
        assert before == cursor.fetchone()


@pytest.mark.django_db
def test_inside_a_transaction_the_caller_can_write_afterwards_and_has_its_own_settings():
    execute("SET LOCAL statement_timeout = '77s'")
    list(examine(EXAM))
    register()
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        assert ("77s",) == cursor.fetchone()


@pytest.mark.django_db
def test_a_check_that_takes_too_long_is_said_and_stops_no_other(monkeypatch: Any):
    def slow(exam: Exam) -> Iterator[Finding]:
        execute("SELECT pg_sleep(30)")
        yield Finding("slow", "ok", "")

    monkeypatch.setattr("django_jobs.operations.doctor.finding.SECONDS", 0.05)
    monkeypatch.setattr(doctor, "CHECKS", {"slow": slow, "limits": CHECKS["limits"]})
    found = list(examine(EXAM))
    assert [("slow", "warning"), ("limits", "ok")] == [(each.check, each.level) for each in found]
    assert "statement timeout" in found[0].sentence


@pytest.mark.django_db
def test_a_database_that_is_away_is_one_finding(monkeypatch: Any):
    def refuse() -> None:
        raise OperationalError("connection refused\nmore")

    monkeypatch.setattr(connections["default"], "ensure_connection", refuse)
    [found] = examine(EXAM)
    assert ("database", "error") == found[:2]
    assert found.sentence.endswith("does not answer: connection refused")


@pytest.mark.django_db
def test_a_database_of_another_vendor_is_one_finding(monkeypatch: Any):
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")
    assert [("database", "error")] == [each[:2] for each in examine(EXAM)]


def test_every_check_stands_in_the_reference():
    sources = (PACKAGE / "operations" / "doctor").glob("*.py")
    code = "\n".join(path.read_text() for path in sources)
    made = set(re.findall(r'Finding\(\s*"(\w+)"', code))
    assert set(CHECKS) <= made
    assert made == first_column("reference/jobs-command.md", "Check")


# the settings


@pytest.mark.django_db
def test_settings_that_cannot_be_used_are_told_and_stop_no_other_check(settings: Any):
    put_options(settings, {"max_in_flight": 0})
    register()
    found = {each.check: each for each in examine(EXAM)}
    fault = found["settings"]
    assert ("error", True) == (fault.level, "max_in_flight" in fault.sentence)
    assert fault.cure
    assert "a setting cannot be used" in found["database"].sentence
    assert "ok" == found["limits"].level
    assert 1 == jobs("doctor")[0]


@pytest.mark.django_db
def test_settings_that_can_be_used_are_in_order():
    assert [("ok", "The settings of 'default' can be used.")] == told("settings")


# the server


@pytest.mark.django_db
def test_a_migration_that_is_missing_or_of_newer_code_is_told():
    execute("INSERT INTO django_migrations (app, name, applied) VALUES"
            " ('django_jobs', '9999_later', now())")  # fmt: skip
    assert [("warning", "The tables are of newer code than this process: 9999_later.")] == (
        told("migrations")
    )
    execute("DELETE FROM django_migrations WHERE app = 'django_jobs' AND name >= '0017'")
    [found] = findings("migrations")
    assert ("error", ["0017_storage"]) == (found.level, found.facts["missing"])
    assert "manage.py migrate django_jobs --database default" in found.cure


@pytest.mark.django_db
@pytest.mark.parametrize(("off", "way"), [(41.0, "ahead of"), (-41.0, "behind")])
def test_a_clock_that_is_off_is_told(monkeypatch: Any, off: float, way: str):
    real = time.time
    monkeypatch.setattr("django_jobs.operations.doctor.server.time.time", lambda: real() + off)
    [found] = [each for each in findings("database") if each.check == "clock"]
    assert ("warning", f"This host's clock is 41 s {way} the database's.") == found[1:3]


def test_a_slow_answer_is_not_taken_for_a_clock_that_is_off():
    assert "ok" == server._clock(2.5, 3.0).level
    assert "warning" == server._clock(2.5, 0.1).level


def test_an_old_server_and_a_standby_are_errors():
    assert "error" == server._version("13.9", 130_009, standby=False).level
    assert "error" == server._version("16.1", 160_001, standby=True).level
    assert "ok" == server._version("14.0", 140_000, standby=False).level


def test_notifications_and_connections_are_judged():
    levels = [server._notifications(used).level for used in (0.0, 0.1, 0.5)]
    assert ["ok", "warning", "error"] == levels
    levels = [server._connections(left, 100, 10).level for left in (15, 14, 3, 2, -1)]
    assert ["ok", "warning", "warning", "error", "error"] == levels


# the tables


@pytest.mark.django_db
def test_an_index_that_is_invalid_or_missing_is_told():
    assert ["ok"] == [each.level for each in findings("indexes")]
    execute("UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'django_jobs_job_dead'::regclass")  # fmt: skip
    execute("DROP INDEX django_jobs_job_ready")
    invalid, missing = findings("indexes")
    assert "The index django_jobs_job_dead is invalid" in invalid.sentence
    assert "Run: REINDEX INDEX CONCURRENTLY django_jobs_job_dead;" == invalid.cure
    assert "Indexes are missing: django_jobs_job_ready." == missing.sentence


@pytest.mark.django_db
def test_the_migrations_make_the_settings_that_are_looked_for():
    assert [("ok", "Autovacuum is on, with the settings of the migrations.")] == (
        told("autovacuum")[:1]
    )
    for table, settings in storage.SETTINGS.items():
        with connection.cursor() as cursor:
            cursor.execute("SELECT reloptions FROM pg_class WHERE oid = %s::regclass", [table])
            [made] = cursor.fetchone()
        assert {f"{name}={value}" for name, value in settings.items()} <= set(made)


@pytest.mark.django_db
@pytest.mark.parametrize("table", sorted(storage.SETTINGS))
def test_a_table_that_has_lost_its_settings_is_told(table: str):
    execute(f"ALTER TABLE {table} RESET (fillfactor, autovacuum_vacuum_scale_factor)")
    [found] = [each for each in findings("autovacuum") if each.check == "autovacuum"]
    assert ("warning", True) == (found.level, table in found.sentence)
    execute(found.cure.removeprefix("Run: "))
    assert "ok" == findings("autovacuum")[0].level


@pytest.mark.django_db
def test_autovacuum_that_is_off_is_an_error():
    execute("ALTER TABLE django_jobs_job SET (autovacuum_enabled = off)")
    assert [("error", "Autovacuum is off for django_jobs_job.")] == told("autovacuum")[:1]


def test_dead_rows_are_judged_by_what_autovacuum_lets_come():
    def table(dead: int, *options: str, live: int = 0) -> storage.Table:
        return storage.Table("t", list(options), live, dead, None, 0)

    leases = ("autovacuum_vacuum_scale_factor=0", "autovacuum_vacuum_threshold=500")
    assert 10_000 == storage._bearable(table(0, *leases))
    assert 10 * (50 + 200_000) == storage._bearable(table(0, live=1_000_000))


# what holds cleaning back


@contextmanager
def transaction_elsewhere(statement: str, level: str = "repeatable read") -> Iterator[int]:
    """Hold a transaction open on another connection; yield its process."""
    other = connections.create_connection("default")
    other.inc_thread_sharing()
    try:
        with other.cursor() as cursor:
            cursor.execute("SET application_name = 'report'")
            cursor.execute(f"BEGIN ISOLATION LEVEL {level}")
            cursor.execute(statement)
            cursor.execute("SELECT pg_backend_pid()")
            [pid] = cursor.fetchone()
            yield pid
            cursor.execute("ROLLBACK")
    finally:
        other.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "HELD_SECONDS", (0.0, 3600.0))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("statement", "level"),
    [
        ("SELECT 1 FROM django_jobs_job", "repeatable read"),
        ("SELECT txid_current()", "read committed"),
    ],
    ids=["snapshot", "xid"],
)
def test_a_transaction_that_is_open_is_found_with_its_process(
    impatient: None, statement: str, level: str
):
    with transaction_elsewhere(statement, level) as pid:
        found = [each for each in findings("snapshots") if each.facts.get("pid") == pid]
        checked = [each for each in run_checks(databases=["default"]) if str(pid) in each.msg]
    assert [("snapshots", "warning")] == [each[:2] for each in found]
    assert f"(report, process {pid}, idle in transaction)" in found[0].sentence
    assert f"pg_terminate_backend({pid})" in found[0].cure
    assert ["django_jobs.W001"] == [each.id for each in checked]
    assert not [each for each in findings("snapshots") if each.facts.get("pid") == pid]


@pytest.mark.django_db(transaction=True)
def test_a_session_that_holds_nothing_back_is_none(impatient: None):
    with transaction_elsewhere("SELECT 1", "read committed") as pid:  # its snapshot is gone
        assert not [each for each in findings("snapshots") if each.facts.get("pid") == pid]


def holder(kind: str, seconds: float | None, age: int = 1) -> Holder:
    return Holder(kind, "name", None, "app", "state", seconds, age)


def test_a_holder_is_judged_by_its_time_or_by_its_age():
    ranks = [holder("session", seconds).rank for seconds in (299.0, 300.0, 3600.0)]
    assert [0, 1, 2] == ranks
    assert [0, 1] == [holder("slot", None, age).rank for age in (999_999, 1_000_000)]


def test_every_kind_of_holder_has_its_words():
    for kind in ("session", "standby", "prepared", "slot"):
        assert holder(kind, 700.0).sentence.endswith("from being cleared away for 12 min.")
        assert holder(kind, None, 5000).sentence.endswith("for 5,000 transactions.")
        assert holder(kind, 1.0).cure


# the system check


@pytest.mark.django_db
def test_the_check_of_an_index_needs_a_database_to_be_named():
    execute("UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'django_jobs_job_dead'::regclass")  # fmt: skip
    ids = [[each.id for each in run_checks(databases=named)] for named in (None, ["default"])]
    assert [False, True] == ["django_jobs.W002" in found for found in ids]


@pytest.mark.django_db
def test_the_check_says_nothing_of_a_database_without_our_tables():
    for table in reversed(storage.tables()):
        execute(f"ALTER TABLE {table} RENAME TO x_{table}")
    assert "django_jobs.W002" not in [each.id for each in run_checks(databases=["default"])]


# the fleet


@pytest.mark.django_db
def test_workers_that_are_late_gone_or_of_two_versions_are_told():
    assert [("error", "No worker of 'default' is live: none of its jobs will run.")] == (
        told("workers")
    )
    register(name="web-1", pid=1, version="1")
    register(name="web-2", pid=2, version="2")
    register(name="web-3", pid=3, version="2", seen_at=ago(25), renew_seconds=10.0)
    register(name="web-4", pid=4, version="3", seen_at=ago(100), renew_seconds=10.0)
    levels = [(each.check, each.level) for each in findings("workers")]
    assert [("workers", "ok"), ("workers", "warning"), ("versions", "warning")] == levels
    sentences = [sentence for _, sentence in told("workers")]
    assert "web-3:3" in sentences[1]
    assert "Live workers are of 2 versions: 1, 2." == sentences[2]


@pytest.mark.django_db
def test_a_queue_with_jobs_that_nobody_serves_is_an_error():
    register(queues=["default"])
    add("default")
    assert ["ok"] == [level for level, _ in told("queues")]
    add("photos", 3)
    [found] = findings("queues")
    assert ("error", "photos", 3) == (found.level, found.facts["queue"], found.facts["ready"])
    assert "manage.py jobworker --queue photos" in found.cure


@pytest.mark.django_db
def test_jobs_of_another_backend_are_not_told():
    register()
    add("photos", backend="other")
    assert ["ok"] == [level for level, _ in told("queues")]


@pytest.mark.django_db
def test_a_task_that_nobody_knows_is_an_error():
    Placement.objects.create(digest="0" * 32, task="app.tasks.old", unknown_since=ago(7200))
    Placement.objects.create(digest="1" * 32, task="app.tasks.new")
    assert [("error", "No live worker has known the task app.tasks.old for 2 h.")] == told("tasks")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("seconds", "cron", "level"),
    [(-60, True, "ok"), (600, True, "error"), (-60, False, "warning"), (600, False, "error")],
)
def test_schedules_are_judged_by_their_time_and_who_fires_them(
    seconds: int, cron: bool, level: str
):
    assert ["ok"] == [each.level for each in findings("schedules")]
    register(cron=cron)
    due = {"task": "t", "schedule": "* * * * *", "timezone": "UTC", "digest": "d"}
    Schedule.objects.create(name="nightly", next_at=ago(seconds), **due)
    Schedule.objects.create(name="off", next_at=ago(600), disabled_at=Now(), **due)
    [found] = findings("schedules")
    assert (level, ["nightly"] if seconds > 0 else []) == (
        found.level,
        found.facts.get("late", []),
    )


@pytest.mark.django_db
def test_permits_that_no_lease_holds_are_told():
    worker = register()
    Limit.objects.create(key="right", size=2, in_use=1)
    [job] = add("default", state="running", attempt=1)
    Lease.objects.create(job_id=job, worker=worker, limit_key="right", expires_at=Now())
    assert ["ok"] == [level for level, _ in told("limits")]
    Limit.objects.create(key="wrong", size=2, in_use=2)
    [found] = findings("limits")
    assert {"key": "wrong", "said": 2, "held": 0} == found.facts
