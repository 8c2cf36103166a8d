"""A task that no live worker knows is warned of once, after its time."""

from __future__ import annotations

import logging
from contextlib import closing
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from django_jobs.models import Event, Job, Placement, Skip, Worker
from django_jobs.operations.nobody_knows import nobody_knows
from django_jobs.operations.place import place
from django_jobs.placement import Needs
from django_jobs.sql import SiteDatabase
from django_jobs.worker.connection import PrivateDatabase
from tests import worlds
from tests.processes import wait_for
from tests.worker.test_hosting import worker

HERE = SiteDatabase("default")
TASK = "shop.tasks.new"
HOUR = 3600.0

pytestmark = pytest.mark.django_db


@pytest.fixture
def unknown() -> int:
    """A placement that asks for a task, with a job that waits."""
    pk = place(Needs(task=TASK), database=HERE)
    Job.objects.create(task=TASK, placement=pk)
    return pk


def register(name: str, **more: Any) -> None:
    """A worker of this version."""
    worlds.register(name=name, default_slots=4, **more)


def ask(after: float = HOUR) -> list[str]:
    return nobody_knows(after=after, database=HERE)


def pass_over(name: str, placement: int, reason: str = "unknown_task") -> None:
    Skip.objects.create(host=name, placement=placement, reason=reason)


def age(placement: int, seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_jobs_placement SET unknown_since = unknown_since - %s * interval '1 s'"
            " WHERE id = %s",
            [seconds, placement],
        )


def test_it_is_told_once_and_not_before_its_time(unknown: int):
    register(name="web-1")
    pass_over("web-1", unknown)
    assert [] == ask()
    age(unknown, HOUR - 10)
    assert [] == ask()
    age(unknown, 20)
    assert [TASK] == ask()
    assert [] == ask()
    [event] = Event.objects.all()
    assert ("nobody_knows", None, unknown, {"task": TASK}) == (
        event.kind,
        event.job_id,
        event.placement,
        event.data,
    )
    assert "ready" == Job.objects.get().state


def test_one_live_worker_that_knows_it_is_enough(unknown: int):
    for name in ("web-1", "web-2"):
        register(name=name)
    pass_over("web-1", unknown)
    assert [] == ask()
    assert None is Placement.objects.get().unknown_since
    pass_over("web-2", unknown)
    assert [] == ask()
    age(unknown, HOUR + 1)
    assert [TASK] == ask()


def test_the_time_begins_anew_once_somebody_has_known_it(unknown: int):
    register(name="web-1")
    pass_over("web-1", unknown)
    ask()
    age(unknown, HOUR + 1)
    assert [TASK] == ask()
    Skip.objects.all().delete()
    assert [] == ask()
    row = Placement.objects.get()
    assert (None, None) == (row.unknown_since, row.warned_at)
    pass_over("web-1", unknown)
    assert [] == ask()
    assert [] == ask()
    age(unknown, HOUR + 1)
    assert [TASK] == ask()
    assert 2 == Event.objects.count()


@pytest.mark.parametrize(
    "case", ["no jobs", "no worker", "late loop", "draining", "other backend"]
)
def test_where_another_reason_tells_it_is_silent(unknown: int, case: str):
    """Without jobs, or without a live worker of their backend, this is not what is wrong."""
    if case == "no jobs":
        Job.objects.update(state="scheduled", run_after="2030-01-01T00:00Z")
    if case != "no worker":
        more: dict[str, Any] = {"draining": {"state": "draining"}}.get(case, {})
        register(name="web-1", backend="other" if case == "other backend" else "default", **more)
    if case == "late loop":
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_worker SET loop_at = now() - interval '21 s'")
    pass_over("web-1", unknown)
    ask()
    assert None is Placement.objects.get().unknown_since


def test_another_reason_to_pass_over_is_none_not_to_know(unknown: int):
    register(name="web-1")
    pass_over("web-1", unknown, "label")
    ask()
    assert None is Placement.objects.get().unknown_since


def test_jobs_of_other_queues_and_workers_of_other_backends_change_nothing(unknown: int):
    """The queue of the waiting job is not the first that has jobs."""
    for queue in ("a", "b", "z"):
        Job.objects.create(task="tests.tasks.ok", queue=queue)
    register(name="web-1")
    register(name="web-2", backend="other")
    pass_over("web-1", unknown)
    assert [] == ask()
    age(unknown, HOUR + 1)
    assert [TASK] == ask()


@pytest.mark.django_db(transaction=True)
def test_of_two_that_ask_at_once_one_tells(unknown: int):
    register(name="web-1")
    pass_over("web-1", unknown)
    ask()
    age(unknown, HOUR + 1)
    told: list[list[str]] = []
    first, second = (PrivateDatabase("default", purpose=f"asks {n}") for n in range(2))
    with closing(first), closing(second):
        pid = second.connection().info.backend_pid
        late = Thread(target=lambda: told.append(nobody_knows(after=HOUR, database=second)))
        with first.connection().transaction():
            told.append(nobody_knows(after=HOUR, database=first))
            late.start()
            wait_for(lambda: waits(pid), what="the second waits for the row")
        late.join(10)
    assert [[TASK], []] == told
    assert 1 == Event.objects.count()


def waits(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", [pid]
        )
        return bool(cursor.fetchone()[0])


def test_a_worker_of_a_version_without_placements_knows_none(unknown: int):
    """It records nothing, and it never takes a job that was moved."""
    register(name="web-1")
    pass_over("web-1", unknown)
    Worker.objects.create(
        id=uuid4(), backend="default", name="old", pid=1, version="0", capacity=1
    )
    assert [] == ask()
    age(unknown, HOUR + 1)
    assert [TASK] == ask()


@pytest.mark.django_db(transaction=True)
def test_the_sweeper_warns_in_its_log(unknown: int, caplog: pytest.LogCaptureFixture):
    with worker("web-1", unknown_task_seconds=1) as made, caplog.at_level(logging.WARNING):
        made.sweeper.sweep()
        age(unknown, 2)
        made.sweeper._warn_at = 0.0
        made.sweeper.sweep()
    assert f"no live worker has known the task {TASK} for 1 s, and jobs of it wait" in caplog.text
    assert ["skipped", "nobody_knows"] == list(
        Event.objects.order_by("id").values_list("kind", flat=True)
    )
