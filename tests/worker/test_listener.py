"""The bell: rung for sleepers only, once, and never needed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.test import override_settings

from django_jobs.models import Job, Worker
from tests.operations.desk import Desk, desks
from tests.processes import Process, wait_for
from tests.proxy import Proxy
from tests.tasks import ok
from tests.worker.fleet import Fleet


@contextmanager
def listening(raw: psycopg.Connection[Any]) -> Iterator[Any]:
    """Yield a function that returns the payloads that were heard since."""
    raw.execute("LISTEN django_jobs")

    def heard(*, seconds: float = 0.2) -> list[str]:
        return [notice.payload for notice in raw.notifies(timeout=seconds)]

    yield heard


@pytest.fixture
def bells(second_connection):
    second_connection.ensure_connection()
    with listening(second_connection.connection) as heard:
        yield heard


@pytest.fixture
def sleeper():
    with desks("sleeper") as [desk]:
        Worker.objects.filter(pk=desk.id).update(idle=True)
        yield desk


transactional = pytest.mark.django_db(transaction=True)


@transactional
def test_an_enqueue_rings_only_where_somebody_sleeps(bells, sleeper: Desk):
    ok.enqueue()
    assert ["default default"] == bells()
    Worker.objects.filter(pk=sleeper.id).update(queues=["mail"])
    ok.enqueue()
    assert [] == bells(), "the sleeper serves another queue"
    ok.using(queue_name="mail").enqueue()
    assert ["mail default"] == bells()
    Worker.objects.filter(pk=sleeper.id).update(idle=False, queues=None)
    ok.enqueue()
    assert [] == bells(), "nobody sleeps"
    Worker.objects.filter(pk=sleeper.id).update(idle=True)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_worker SET seen_at = now() - interval '1 hour'")
    ok.enqueue()
    assert [] == bells(), "the sleeper is dead"


@transactional
def test_a_transaction_rings_once_a_queue_and_after_its_commit(bells, sleeper: Desk):
    with transaction.atomic():
        for _ in range(3):
            ok.enqueue()
            ok.using(queue_name="mail").enqueue()
        assert [] == bells()
    assert ["default default", "mail default"] == sorted(bells())
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        ok.enqueue()
        raise ZeroDivisionError
    assert [] == bells()
    ok.enqueue()
    assert ["default default"] == bells(), "what was rolled back rings no more"


@transactional
def test_who_goes_to_sleep_during_a_transaction_is_woken_by_its_commit(bells, sleeper: Desk):
    Worker.objects.filter(pk=sleeper.id).update(idle=False)
    with transaction.atomic():
        ok.enqueue()
        with desks("other") as [other]:
            other.database.connection().execute("UPDATE django_jobs_worker SET idle = true")
    assert ["default default"] == bells()


@transactional
def test_five_thousand_at_once_ring_once_a_queue(bells, sleeper: Desk):
    mail = ok.using(queue_name="mail")
    ok.enqueue_many([(mail if number % 2 else ok).s(number) for number in range(5000)])
    assert ["default default", "mail default"] == sorted(bells())
    assert 5000 == Job.objects.count()


@transactional
def test_a_large_argument_or_a_long_name_of_a_queue_is_never_in_the_bell(bells, sleeper: Desk):
    tasks = {"BACKEND": "django_jobs.backend.JobsBackend", "QUEUES": [], "OPTIONS": {}}
    with override_settings(TASKS={"default": tasks}):
        ok.using(queue_name="q" * 100).enqueue("x" * 300_000)
    assert ["q" * 100 + " default"] == bells()


@transactional
def test_a_job_that_is_due_soon_rings_and_one_that_is_due_later_does_not(bells, sleeper: Desk):
    from datetime import timedelta

    ok.using(run_after=timedelta(seconds=2)).enqueue()
    assert ["default default"] == bells()
    ok.using(run_after=timedelta(minutes=2)).enqueue()
    assert [] == bells()


# with real workers


@contextmanager
def heard(fleet: Fleet) -> Iterator[Any]:
    with fleet.connect() as raw, listening(raw) as function:
        yield function


@pytest.mark.slow
@pytest.mark.subprocess
def test_idle_sweeps_never_ring(fleet: Fleet):
    lookers = (
        "SELECT bool_and(idle) AND count(*) = 2 FROM django_jobs_worker"
        " WHERE seen_at > now() - interval '5 s'"
    )
    workers = [fleet.idle(), fleet.started()]
    fleet.wait(lookers)
    with heard(fleet) as function:
        assert [] == function(seconds=5.5)  # a sweep each at least
        fleet.put("tests.tasks.ok")
        fleet.ring()
        assert ["default default"] == function()
        # promotion by one rings for the other only
        fleet.put("tests.tasks.ok", state="scheduled", run_after="2020-01-01")
        fleet.ring()
        fleet.wait_for_all()
        assert len(function()) <= 2
    assert [0, 0] == [fleet.stop(worker) for worker in workers]


@pytest.mark.subprocess
def test_a_bell_that_is_not_heard_costs_a_poll_interval_at_most(fleet: Fleet):
    ceiling = fleet.settings(poll_ceiling_seconds=1.0)
    worker = fleet.idle("--no-listen", **ceiling)
    fleet.wait("SELECT loop_at < clock_timestamp() - interval '0.5 s' FROM django_jobs_worker")
    for _ in range(3):
        pk = fleet.put_one("tests.tasks.ok")
        fleet.wait_for_state(pk, "succeeded")
        [delay] = fleet.rows(
            "SELECT extract(epoch FROM started_at - enqueued_at)::float8 FROM django_jobs_job"
            " WHERE id = %s",
            pk,
        )
        assert delay < 2.5
    assert 0 == fleet.stop(worker)


def pick_up(fleet: Fleet) -> float:
    """Enqueue as the backend does, with a bell; return the seconds until the start."""
    pk = fleet.put_one("tests.tasks.ok")
    fleet.ring()
    fleet.wait_for_state(pk, "succeeded")
    delay: float = fleet.value(
        "SELECT extract(epoch FROM started_at - enqueued_at)::float8 FROM django_jobs_job"
        " WHERE id = %s",
        pk,
    )
    return delay


def deep_sleeper(fleet: Fleet, *flags: str, text: str = "", **options: Any) -> Process:
    """Start a worker whose polls are nine seconds apart: what wakes it sooner is a bell."""
    settings = fleet.settings(text, poll_floor_seconds=9.0, **options)
    worker = fleet.idle(*flags, **settings)
    fleet.wait("SELECT loop_at < clock_timestamp() - interval '0.3 s' FROM django_jobs_worker")
    return worker


@pytest.mark.subprocess
def test_a_bell_wakes_a_sleeper_and_is_heard_again_after_its_session_ended(fleet: Fleet):
    worker = deep_sleeper(fleet)
    assert pick_up(fleet) < 3
    assert 1 == fleet.end_sessions("listener")
    worker.wait_for_log("jobs-listener")
    fleet.wait(
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()"
        " AND query LIKE 'LISTEN%%' AND state = 'idle' AND application_name ~ %s",
        "listener",
    )
    assert pick_up(fleet) < 3
    assert 0 == fleet.stop(worker)
    assert "Traceback" not in worker.log()


@pytest.mark.subprocess
def test_what_was_enqueued_before_the_worker_listens_again_is_not_waited_for(fleet: Fleet):
    """LISTEN hears only what comes later, so it is followed by a look."""
    worker = deep_sleeper(fleet)
    fleet.end_sessions("listener")
    pk = fleet.put_one("tests.tasks.ok")  # its bell rings for nobody
    fleet.wait_for_state(pk, "succeeded")
    delay = fleet.value(
        "SELECT extract(epoch FROM started_at - enqueued_at)::float8 FROM django_jobs_job"
    )
    assert delay < 4
    assert 0 == fleet.stop(worker)


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_half_open_line_is_noticed_and_the_bell_heard_again(fleet: Fleet, proxy: Proxy):
    info = fleet.server.conninfo("fleet")
    text = (
        "import copy\nDATABASES['bell'] = copy.deepcopy(DATABASES['default'])\n"
        f"DATABASES['bell'].update(HOST='127.0.0.1', PORT='{proxy.port}')\n"
    )
    assert info["port"] != str(proxy.port)
    worker = deep_sleeper(fleet, text=text, listen="bell")
    assert pick_up(fleet) < 3
    proxy.drop()  # half open: neither side is told
    begun = time.monotonic()
    worker.wait_for_log("has not answered the listener", seconds=20)
    proxy.restore()
    wait_for(lambda: len(proxy.lines) == 2)
    fleet.wait(
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()"
        " AND query LIKE 'LISTEN%%' AND application_name ~ %s",
        "listener",
    )
    assert time.monotonic() - begun < 15
    assert pick_up(fleet) < 3
    assert 0 == fleet.stop(worker)


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize(("flags", "late"), [((), 1.0), (("--no-listen",), 5.5)])
def test_a_scheduled_job_starts_at_its_time(fleet: Fleet, flags: tuple[str, ...], late: float):
    worker = deep_sleeper(fleet, *flags)
    rows = fleet.rows(
        "INSERT INTO django_jobs_job (task, kwargs, args, state, run_after) SELECT"
        " 'tests.tasks.ok', '{}', '[]', 'scheduled', clock_timestamp() + s * interval '1 second'"
        " FROM unnest(ARRAY[0.7, 1.5]) s RETURNING id"
    )
    if not flags:
        fleet.ring()
    fleet.wait_for_all()
    delays = fleet.rows(
        "SELECT extract(epoch FROM started_at - run_after)::float8 FROM django_jobs_job"
    )
    assert len(rows) == len(delays)
    assert all(0 <= delay < late for delay in delays), delays
    assert 0 == fleet.stop(worker)
