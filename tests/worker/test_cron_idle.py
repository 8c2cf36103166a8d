"""What schedules cost a worker while nothing is due: no statement at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_jobs.conf import Options
from django_jobs.models import Job, Schedule
from django_jobs.worker import sweeper
from django_jobs.worker.worker import Worker
from tests.aliases import database_time
from tests.operations.timetables import EVERY_MINUTE

pytestmark = pytest.mark.django_db(transaction=True)

NEW_YEAR = {**EVERY_MINUTE, "schedule": "0 0 1 1 *"}
CRON = {f"entry {number}": NEW_YEAR for number in range(20)}


@contextmanager
def swept(cron: dict[str, Any], *, fires: bool = True) -> Iterator[tuple[Worker, list[str]]]:
    """A worker of which only the sweeper works, and the statements that it sends."""
    worker = Worker(Options("default", cron=cron), cron=fires)
    worker.register()
    sent: list[str] = []
    real = worker.sweeper.database.fetch

    def fetch(name: str, params: Any) -> Any:
        sent.append(name)
        return real(name, params)

    worker.sweeper.database.fetch = fetch  # type: ignore[method-assign]
    try:
        yield worker, sent
    finally:
        worker.sweeper.database.close()
        worker.loop.database.close()


def sweeps(worker: Worker, sent: list[str], count: int) -> list[list[str]]:
    """Return what is sent in each of so many sweeps."""
    found = []
    for _ in range(count):
        sent.clear()
        worker.sweeper.sweep()
        found.append([*sent])
    return found


@pytest.fixture
def usual() -> list[list[str]]:
    """Two sweeps of a worker that fires no schedules."""
    with swept(CRON, fires=False) as (worker, sent):
        return sweeps(worker, sent, 2)


def test_without_schedules_a_worker_sends_no_more_than_before(usual: list[list[str]]) -> None:
    assert not Schedule.objects.exists()
    assert "look" in usual[1]
    with swept({}) as (worker, sent):
        first, second = sweeps(worker, sent, 2)
    assert usual[1] == second
    assert ["clock", "put_schedules", *usual[0]] == first


def test_while_nothing_is_due_schedules_cost_no_statement(usual: list[list[str]]) -> None:
    with swept(CRON) as (worker, sent):
        first, *later = sweeps(worker, sent, 4)
    assert ["clock", "put_schedules"] == first[:2]
    assert [usual[1]] * 3 == later
    assert 20 == Schedule.objects.count()


def test_a_row_that_is_gone_is_written_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_jobs.worker.timetable.PUT_AGAIN", 0.0)
    with swept(CRON) as (worker, sent):
        sweeps(worker, sent, 1)
        Schedule.objects.filter(name="entry 7").delete()
        [found] = sweeps(worker, sent, 1)
        assert "put_schedules" in found
        assert 20 == Schedule.objects.count()


def test_a_firing_is_two_statements_beside_the_look(usual: list[list[str]]) -> None:
    with swept({"tick": EVERY_MINUTE}) as (worker, sent):
        sweeps(worker, sent, 1)
        Schedule.objects.update(next_at=database_time() - timedelta(hours=1))
        [found] = sweeps(worker, sent, 1)
    assert ["due_schedules", "fire"] == [name for name in found if name not in usual[1]]
    assert 1 == Job.objects.count()


def test_a_sweep_waits_no_longer_than_until_the_next_is_due() -> None:
    with swept({"tick": EVERY_MINUTE}) as (worker, sent):
        sweeps(worker, sent, 1)
        Schedule.objects.update(next_at=database_time() + timedelta(seconds=0.4))
        pause = worker.sweeper.sweep()
    assert 0 < pause <= 0.4 < sweeper.LONGEST_BUSY


def test_schedules_that_cannot_be_written_hold_up_no_sweep(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no schedules'; END $$;"
            "CREATE TRIGGER no BEFORE INSERT ON django_jobs_schedule FOR EACH ROW "
            "EXECUTE FUNCTION no()"
        )
        try:
            with swept(CRON) as (worker, sent):
                assert ["look"] == [name for name in sweeps(worker, sent, 1)[0] if name == "look"]
        finally:
            cursor.execute("DROP TRIGGER no ON django_jobs_schedule; DROP FUNCTION no()")
    assert "the schedules cannot be written down: no schedules" in caplog.text
