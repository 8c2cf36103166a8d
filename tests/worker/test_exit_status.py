"""Every way to end has a status that a supervisor can tell apart."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from testproject.postgres import as_url
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]
SQLITE = "DATABASES['default'] = {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}"
BREAK_THE_LOOP = """
import django.core.management.base as base
execute = base.BaseCommand.execute
def executed(self, *args, **options):
    from django_jobs.worker.loop import Loop
    turn, turns = Loop.turn, []
    def broken(loop, **given):
        turns.append(1)
        if len(turns) > 3 and given["claiming"]:
            raise RuntimeError("a fault of ours")
        return turn(loop, **given)
    Loop.turn = broken
    return execute(self, *args, **options)
base.BaseCommand.execute = executed
"""


def test_0_when_it_was_asked_to_stop_or_had_nothing_left_to_do(fleet: Fleet):
    fleet.put("tests.tasks.ok", count=3)
    assert 0 == fleet.worker("--once").wait()
    fleet.put("tests.tasks.ok", count=3)
    assert 0 == fleet.worker("--max-jobs", "2").wait()
    assert {"succeeded": 5, "ready": 1} == fleet.states()


def test_1_when_the_worker_itself_is_at_fault(fleet: Fleet, end: End):
    worker = fleet.started(**fleet.injected(BREAK_THE_LOOP))
    assert 1 == worker.wait()
    assert "a fault of ours" in worker.log()


def test_2_when_an_option_or_a_setting_cannot_be_used(fleet: Fleet):
    fleet.put("tests.tasks.ok")
    renew = fleet.settings(lease_seconds=5, renew_seconds=2.5)
    workers = [
        (fleet.worker("--max-in-flight", "0"), "--max-in-flight is 0"),
        (fleet.worker("--queue", "nowhere"), "nowhere"),
        (fleet.worker("--lease", "1"), "lease"),
        (fleet.worker("--lease", "5", **renew), "renew_seconds"),
        (fleet.worker(**fleet.settings(max_in_fligth=3)), "max_in_flight"),
    ]
    for worker, word in workers:
        assert (2, True) == (worker.wait(), word in worker.log()), worker.log()
        assert "Traceback" not in worker.log()
    assert {"ready": 1} == fleet.states()


def test_3_when_the_database_cannot_hold_jobs(fleet: Fleet):
    sqlite = fleet.worker(**fleet.settings(SQLITE))
    name = "fleet_empty"
    fleet.rows(f"DROP DATABASE IF EXISTS {name}")
    fleet.rows(f"CREATE DATABASE {name}")
    unmigrated = fleet.worker(
        DATABASE_URL=as_url(fleet.server.conninfo(name)), DJANGO_JOBS_TEST_DATABASE=name
    )
    assert (3, 3) == (sqlite.wait(), unmigrated.wait())
    assert "is SQLite: django_jobs needs PostgreSQL" in sqlite.log()
    assert "manage.py migrate django_jobs --database default" in unmigrated.log()
    assert "Traceback" not in sqlite.log() + unmigrated.log()


def test_3_when_a_pooled_session_would_start_at_another_isolation(fleet: Fleet):
    pooled = "DATABASES['default']['DISABLE_SERVER_SIDE_CURSORS'] = True"
    fleet.put("tests.tasks.ok")
    fleet.rows("ALTER DATABASE fleet SET default_transaction_isolation = 'repeatable read'")
    try:
        refused = fleet.worker(**fleet.settings(pooled))
        assert 3 == refused.wait()
        assert {"ready": 1} == fleet.states()
        direct = fleet.worker("--once")  # a session of its own can be told
        assert 0 == direct.wait()
    finally:
        fleet.rows("ALTER DATABASE fleet RESET default_transaction_isolation")
    assert "default_transaction_isolation" in refused.log()
    assert "Traceback" not in refused.log()
    assert {"succeeded": 1} == fleet.states()


def test_a_killed_worker_never_looks_as_if_it_had_drained(fleet: Fleet):
    worker = fleet.started()
    worker.kill()
    assert -signal.SIGKILL == worker.wait()


def test_a_worker_that_waits_for_its_database_can_be_stopped(fleet: Fleet):
    url = as_url({**fleet.server.conninfo("fleet"), "host": "127.0.0.1", "port": "1"})
    worker = fleet.worker(DATABASE_URL=url)
    worker.wait_for_log("cannot reach the database")
    assert 0 == fleet.stop(worker)
