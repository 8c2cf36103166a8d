"""When a worker looks: soon for what is due, and not a thousand times in vain."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from django_jobs import task
from django_jobs.conf import Options
from django_jobs.models import Job
from django_jobs.models import Worker as WorkerRow
from django_jobs.operations.promote import promote
from django_jobs.operations.renew import Renewal
from django_jobs.testing import running_worker
from django_jobs.worker import Worker, loop, renewer
from tests.operations.desk import Desk, desks, jobs, silence
from tests.processes import wait_for
from tests.tasks import nap, ok
from tests.test_docs import PACKAGE
from tests.worker.embedded import Count, row, wait_for_ends, wait_for_state
from tests.worker.test_floors import look

transactional = pytest.mark.django_db(transaction=True)


@task
def take_a_moment() -> None:
    """As long as a few of them in a row are more than a pass or two."""
    Event().wait(0.05)


# turns are bounded


@pytest.fixture
def resting() -> Iterator[Worker]:
    """A worker that has not been started."""
    worker = Worker(Options("default"))
    yield worker
    worker._wakeup.close()


def test_a_worker_that_may_not_claim_rests_between_its_turns(resting: Worker):
    resting.loop._healthy = lambda: False
    resting.loop._pause = 0.0
    assert 0.05 <= resting.loop.turn(claiming=True) <= 0.5
    resting.loop._pause = 10.0
    assert 0.05 <= resting.loop.turn(claiming=True) <= 0.5


def test_a_worker_that_drains_rests_between_its_turns(resting: Worker):
    for pause in (0.0, 10.0):
        resting.loop._pause = pause
        assert 0.05 == resting.loop.turn(claiming=False)


@contextmanager
def locked(raw: psycopg.Connection[Any]) -> Iterator[None]:
    """Hold every row of the jobs in a transaction."""
    with raw.transaction():
        raw.execute("SELECT FROM django_jobs_job FOR UPDATE")
        yield


@pytest.fixture
def holder(second_connection: Any) -> psycopg.Connection[Any]:
    second_connection.ensure_connection()
    raw: psycopg.Connection[Any] = second_connection.connection
    return raw


@transactional
def test_a_ready_row_that_somebody_holds_is_no_reason_to_spin(holder: psycopg.Connection[Any]):
    job = ok.enqueue()
    with locked(holder), running_worker(drain_seconds=1) as worker:
        claims = Count(worker.loop.database, "fetch")
        wait_for(lambda: claims.calls)
        assert claims.during(1.0) <= 30
        assert "ready" == row(job).state


@transactional
def test_a_due_row_that_somebody_holds_is_no_reason_to_spin(holder: psycopg.Connection[Any]):
    job = ok.using(run_after=timedelta(seconds=0.3)).enqueue()
    with running_worker(drain_seconds=1) as worker:
        with locked(holder):
            vain = Count(worker.sweeper.database, "fetch", where=lambda name, _: name == "promote")
            wait_for(lambda: vain.calls)
            assert 1 <= vain.during(1.5) <= 6
        assert ["succeeded"] == wait_for_ends(job, seconds=3)


# the bell


@transactional
def test_an_answer_that_was_lost_leaves_no_sleeper_without_its_bell():
    """The worker's row says busy by then, so that no enqueue would ring."""
    with running_worker(drain_seconds=1, max_in_flight=1) as worker:
        wait_for(lambda: worker.loop.idle)
        fetch, lost = worker.loop.database.fetch, list[str]()

        def lossy(name: str, params: Any) -> Any:
            answer = fetch(name, params)
            if name == "idle" and not params["idle"] and not lost:
                lost.append(name)
                worker.loop.database.close()
                raise psycopg.OperationalError("the answer is lost")
            return answer

        worker.loop.database.fetch = lossy  # type: ignore[method-assign]
        backlog = [take_a_moment.enqueue() for _ in range(14)]
        assert ["succeeded"] * 14 == wait_for_ends(*backlog)
        assert ["idle"] == lost
        wait_for(lambda: WorkerRow.objects.get().idle, seconds=3, what="it says busy for ever")


def enqueue_one(_desk: Desk) -> None:
    ok.enqueue()


def enqueue_many(_desk: Desk) -> None:
    ok.enqueue_many([ok.s(number) for number in range(3)])


def enqueue_in_a_transaction(_desk: Desk) -> None:
    with transaction.atomic():
        ok.enqueue()


def promote_due(desk: Desk) -> None:
    jobs(1, state="scheduled", run_after="2020-01-01T00:00Z")
    promote(worker=desk.id, database=desk.database)


@transactional
@pytest.mark.parametrize(
    "verb", [enqueue_one, enqueue_many, enqueue_in_a_transaction, promote_due]
)
@pytest.mark.parametrize(("lease", "rings"), [(300.0, True), (30.0, False)])
def test_a_sleeper_is_alive_for_as_long_as_its_own_lease(
    bells: Callable[[], list[str]], verb: Callable[[Desk], None], lease: float, *, rings: bool
):
    """Not for as long as the site's setting says: ``--lease`` may have said otherwise."""
    with desks("sleeper", "another") as [sleeper, other]:
        sleeper.beat(lease=lease)
        WorkerRow.objects.filter(pk=sleeper.id).update(idle=True)
        silence(sleeper, seconds=40)
        verb(other)
    assert (["default default"] if rings else []) == bells()


@transactional
@pytest.mark.parametrize(
    "verb", [enqueue_one, enqueue_many, enqueue_in_a_transaction, promote_due]
)
def test_nobody_waits_for_another_who_rings_and_nobody_rings_beside_it(
    holder: psycopg.Connection[Any],
    bells: Callable[[], list[str]],
    verb: Callable[[Desk], None],
):
    """A notify holds a lock over all databases until its commit."""
    with desks("sleeper", "another") as [sleeper, other]:
        WorkerRow.objects.filter(pk=sleeper.id).update(idle=True)
        with holder.transaction():
            holder.execute(
                "SELECT pg_notify('django_jobs', 'default default')"
                " WHERE pg_try_advisory_xact_lock(1684696930, hashtext('default default'))"
            )
            verb(other)
            assert [] == bells()
        assert 1 == len(bells())
        verb(other)
        assert 1 == len(bells())


@pytest.mark.parametrize("path", sorted((PACKAGE / "sql").glob("*.sql")), ids=lambda it: it.stem)
def test_every_bell_for_a_queue_is_rung_by_one_at_a_time(path: Path):
    text = path.read_text()
    bells = re.findall(r"pg_notify\('django_jobs', (m\.queue|q\.queue)", text)
    locks = re.findall(
        r"CASE WHEN (?:%\(long\)s::bool OR )?"
        r"pg_try_advisory_xact_lock\(1684696930, hashtext\((.*)\)\).*\n"
        r" *THEN pg_notify\('django_jobs', \1\)",
        text,
    )
    assert len(bells) == len(locks)


def test_a_bell_in_vain_is_followed_by_one_look_soon_and_by_no_more_bells(resting: Worker):
    resting_loop, nothing = resting.loop, look()
    resting_loop.idle = True
    pauses = []
    for rung in (False, False, True, False, True, True):
        resting_loop._set_pace(nothing, rung=rung)
        pauses.append(resting_loop._pause)
    assert [0.05, 0.1, 0.05, 0.2, 0.05, 0.05] == pauses
    resting_loop.ring()
    assert (True, False) == (resting_loop._rung, resting._wakeup._written)
    resting_loop._deaf_until = monotonic()
    resting_loop.ring()
    assert resting._wakeup._written


def test_a_bell_that_came_before_it_was_idle_is_followed_too(
    resting: Worker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resting.loop, "_say_idle", lambda **_: None)
    resting.loop._set_pace(look(), rung=True)
    assert (0.0, True) == (resting.loop._pause, resting.loop._rung)


@transactional
def test_who_lost_the_race_for_the_bell_and_commits_later_is_found_soon(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(loop, "LATE_SECONDS", 1.0)
    with running_worker(drain_seconds=1, poll_floor_seconds=9.0) as worker:
        wait_for(lambda: worker.loop.idle and worker._wakeup.sleeping)
        worker.loop.ring()  # and finds nothing, for nothing has been committed
        wait_for(lambda: worker.loop._deaf_until)
        [pk] = jobs()
        wait_for(lambda: Job.objects.get(pk=pk).state == "succeeded", seconds=5)


@transactional
def test_a_job_that_is_due_in_a_moment_is_not_forgotten_over_a_backlog():
    """A worker that is busy is not rung for, so it looks by itself."""
    with running_worker(drain_seconds=1, max_in_flight=2) as worker:
        naps = [nap.enqueue(0.05) for _ in range(200)]
        wait_for(lambda: worker.loop._steady > 8 and not worker.loop.idle)
        looks = Count(worker.sweeper.database, "fetch", where=lambda name, _: name == "look")
        wait_for(lambda: looks.calls)  # from now on it is as long as can be until the next
        soon = ok.using(priority=50, run_after=timedelta(seconds=0.3)).enqueue()
        wait_for_state(soon, "succeeded")
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_jobs_job WHERE state = 'ready'")
        assert len(naps) == 200
    kept: Any = row(soon)
    assert (kept.started_at - kept.run_after).total_seconds() < 1.5


# what the renewer says


class Held:
    """A run as the renewer knows it."""

    def __init__(self, *, outcome: object = None) -> None:
        self.job = SimpleNamespace(id=7)
        self.outcome = outcome
        self.lost = False
        self.settling = False
        self.asked = False
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


@pytest.mark.parametrize(
    ("ended", "settled", "renewed", "lost"),
    [
        (False, False, False, True),
        (True, False, False, False),
        (False, True, False, False),
        (False, False, True, False),
    ],
    ids=["gone", "ended meanwhile", "settled meanwhile", "renewed"],
)
def test_only_a_run_that_goes_on_without_its_lease_is_told_that_it_is_lost(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    resting: Worker,
    *,
    ended: bool,
    settled: bool,
    renewed: bool,
    lost: bool,
):
    run: Any = Held(outcome="succeeded" if ended else None)
    resting.capacity.held[1] = run

    def renew(_leases: Any, **_: Any) -> Any:
        if settled:
            resting.capacity.release(1)
        return {1: Renewal(renewed=True)} if renewed else {}

    monkeypatch.setattr(renewer, "renew", renew)
    monkeypatch.setattr(renewer, "beat", lambda *_, **__: 1)
    with caplog.at_level(logging.WARNING, logger="django_jobs.worker"):
        resting.renewer.turn()
        resting.renewer.turn()
    assert (lost, int(lost), int(lost)) == (run.lost, run.cancelled, len(caplog.messages))
