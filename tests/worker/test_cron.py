"""Schedules under real workers: killed while they fire, told what is wrong, switched off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from tests.processes import Process
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess

LONG = bool(os.environ.get("DJANGO_JOBS_LONG"))
SEEDS = range(1, 21) if LONG else range(1, 3)
KILLS = 10
LEAST = 5  # that must have hit a firing
TICK = {"task": "tests.tasks.ok", "schedule": "* * * * *", "timezone": "UTC"}
ALL = {**TICK, "catch_up": "all", "catch_up_limit": 100}
INSERT, UPDATE = 4712, 4713  # keys of the gates

# The firing stops in the middle: before its first job is there, or when all are.
GATES = f"""
CREATE OR REPLACE FUNCTION cron_gate() RETURNS trigger LANGUAGE plpgsql SET lock_timeout TO 0 AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::bigint); RETURN NEW; END $$;
CREATE TRIGGER cron_insert BEFORE INSERT ON django_jobs_job FOR EACH ROW
  WHEN (NEW.schedule IS NOT NULL) EXECUTE FUNCTION cron_gate({INSERT});
CREATE TRIGGER cron_update BEFORE UPDATE ON django_jobs_schedule FOR EACH ROW
  WHEN (NEW.last_job IS DISTINCT FROM OLD.last_job) EXECUTE FUNCTION cron_gate({UPDATE});
"""
NO_GATES = """
DROP TRIGGER IF EXISTS cron_insert ON django_jobs_job;
DROP TRIGGER IF EXISTS cron_update ON django_jobs_schedule;
"""
AT_THE_GATE = (
    "SELECT count(*) = %s FROM pg_stat_activity WHERE datname = current_database()"
    " AND wait_event_type = 'Lock' AND application_name ~ %s AND query LIKE 'WITH taken%%'"
)
EACH_ONCE = """
SELECT ARRAY(SELECT scheduled_for FROM django_jobs_job WHERE schedule = 'tick' ORDER BY 1)
     = ARRAY(SELECT g FROM generate_series(%s, date_trunc('minute', clock_timestamp()),
                                           '1 minute') g)
"""


@pytest.fixture
def gates(fleet: Fleet) -> Iterator[None]:
    """Triggers that let a firing wait for the test."""
    fleet.rows(NO_GATES)
    fleet.rows(GATES)
    yield
    fleet.end_sessions(".*")
    fleet.rows(NO_GATES)


@contextmanager
def shut(fleet: Fleet, point: str) -> Iterator[None]:
    """Let firings wait: as soon as they are sent, before the first job or after the last."""
    locks = {
        "start": "LOCK TABLE django_jobs_schedule IN SHARE MODE",
        "insert": f"SELECT pg_advisory_xact_lock({INSERT})",
        "update": f"SELECT pg_advisory_xact_lock({UPDATE})",
    }
    with fleet.connect() as gate, gate.transaction():
        gate.execute(locks[point])
        yield


class Killed:
    """One worker that lives on, frozen while the other shall fire, and one that is killed."""

    def __init__(self, fleet: Fleet, environment: dict[str, Any]) -> None:
        self.fleet = fleet
        self.environment = environment
        self.hits: list[str] = []
        self.other = fleet.started(**environment)
        fleet.wait("SELECT count(*) = 1 FROM django_jobs_schedule")
        self.other.freeze()

    def start(self) -> Process:
        """Start the one that will be killed; its sessions have a name of their own."""
        url = self.fleet.url(application_name="victim")
        return self.fleet.worker(**{**self.environment, "DATABASE_URL": url})

    def while_it_fires(self, point: str) -> None:
        """Kill it in the middle; the server takes back what it had begun."""
        with shut(self.fleet, point):
            self._kill_at_the_gate(point)
            self.fleet.end_sessions("victim")

    def after_its_commit(self) -> None:
        """Kill it when its statement can only succeed: it will never know; the other tries."""
        with shut(self.fleet, "update"):
            self._kill_at_the_gate("commit")
            self.other.thaw()

    def while_the_other_wins(self) -> None:
        """Kill it when both have sent their statements."""
        with shut(self.fleet, "start"):
            self.other.thaw()
            self._kill_at_the_gate("race", firing=2)
            self.fleet.end_sessions("victim")

    def when_nothing_is_due(self) -> None:
        """Kill it at its work."""
        victim = self.start()
        victim.wait_for_log("in flight; serves")
        victim.kill()

    def _kill_at_the_gate(self, point: str, *, firing: int = 1) -> None:
        victim = self.start()
        names = "victim" if firing == 1 else "victim|sweeper"
        self.fleet.wait(AT_THE_GATE, firing, names)
        victim.kill()
        assert "job" not in victim.log().partition("schedule tick")[2]
        self.hits.append(point)


@pytest.mark.slow
@pytest.mark.usefixtures("gates")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_minute_has_one_job_whoever_is_killed_while_it_fires(fleet: Fleet, seed: int) -> None:
    dice = Random(seed)
    killed = Killed(fleet, fleet.settings(cron={"tick": ALL}))
    first = fleet.value(
        "UPDATE django_jobs_schedule SET next_at = date_trunc('minute', clock_timestamp())"
        " - interval '60 minutes' RETURNING next_at"
    )
    in_the_middle = dice.randint(LEAST, KILLS - 2)
    for _ in range(in_the_middle):
        killed.while_it_fires(dice.choice(["start", "insert", "update"]))
    assert 0 == fleet.value("SELECT count(*) FROM django_jobs_job")
    (killed.after_its_commit if seed % 2 else killed.while_the_other_wins)()
    fleet.wait(EACH_ONCE, first)
    for _ in range(KILLS - in_the_middle - 1):
        killed.when_nothing_is_due()
    fleet.started(**killed.environment)
    fleet.wait(EACH_ONCE, first)
    print(f"seed {seed}: killed at {', '.join(killed.hits)}")  # noqa: T201 - the record of the run
    assert LEAST <= len(killed.hits)
    assert [] == fleet.lines("ERROR")


# What stops a start, and what switches the schedules off.


def test_a_worker_refuses_to_start_on_each_bad_entry(fleet: Fleet) -> None:
    cron = {
        "a": {**TICK, "schedule": "0 0 31 2 *"},
        "b": {**TICK, "timezone": "Mars/Olympus"},
        "c": TICK,
    }
    process = fleet.worker(**fleet.settings(cron=cron))
    assert 2 == process.wait()
    assert "['cron']['a']['schedule'] is '0 0 31 2 *'. Write five fields" in process.log()
    assert "so it is never due" in process.log()
    assert "['cron']['b']['timezone'] is 'Mars/Olympus'." in process.log()
    assert "['cron']['c']" not in process.log()


def test_a_worker_refuses_to_start_on_a_task_that_is_not_there(fleet: Fleet) -> None:
    settings = fleet.settings(cron={"a": {**TICK, "task": "tests.tasks.gone"}})
    process = fleet.worker(**settings)
    assert 2 == process.wait()
    said = process.log()
    assert "['cron']['a'] cannot be fired: No task is known as 'tests.tasks.gone' here" in said
    assert "or leave the schedules to others with --no-cron" in said
    assert "Traceback" not in said
    fleet.started("--no-cron", **settings)


def test_a_worker_with_no_cron_neither_writes_nor_fires(fleet: Fleet) -> None:
    settings = fleet.settings(cron={"tick": ALL})
    fleet.started("--no-cron", **settings)
    assert [False] == fleet.rows("SELECT cron FROM django_jobs_worker")
    fleet.started(**settings)
    fleet.wait("SELECT count(*) = 1 FROM django_jobs_schedule")
    assert 1 == fleet.value("SELECT count(*) FROM django_jobs_worker WHERE cron")


@pytest.mark.slow
def test_rows_that_are_truncated_come_back_and_fire_nothing(fleet: Fleet) -> None:
    fleet.started(**fleet.settings(cron={"tick": ALL}))
    fleet.wait("SELECT count(*) = 1 FROM django_jobs_schedule")
    fleet.rows("TRUNCATE django_jobs_schedule")
    fleet.wait("SELECT count(*) = 1 FROM django_jobs_schedule")
    assert 0 == fleet.value(
        "SELECT count(*) FROM django_jobs_job WHERE scheduled_for < now() - interval '90 s'"
    )


def test_jobs_are_made_on_time_while_every_place_is_taken(fleet: Fleet) -> None:
    settings = fleet.settings(cron={"tick": ALL})
    fleet.put("tests.tasks.nap", 60)
    fleet.started("--max-in-flight", "1", **settings)
    fleet.wait("SELECT count(*) = 1 FROM django_jobs_job WHERE state = 'running'")
    fleet.wait("SELECT count(*) = 1 FROM django_jobs_schedule")
    fleet.rows("UPDATE django_jobs_schedule SET next_at = date_trunc('minute', now())")
    fleet.wait("SELECT count(*) >= 1 FROM django_jobs_job WHERE schedule = 'tick'")


def test_a_worker_for_a_moment_fires_what_came_while_none_lived(fleet: Fleet) -> None:
    settings = fleet.settings(cron={"tick": TICK})
    assert 0 == fleet.worker("--once", **settings).wait()
    fleet.rows("UPDATE django_jobs_schedule SET next_at = now() - interval '1 hour'")
    assert 0 == fleet.worker("--once", **settings).wait()
    assert ["succeeded"] == fleet.rows("SELECT state FROM django_jobs_job")
