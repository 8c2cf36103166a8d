"""How far a run is: written by the renewer, seldom, for all runs of its worker at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

from django_jobs import JobContext, task
from django_jobs.conf import Options
from django_jobs.models import Job, Lease
from django_jobs.operations.claim import Claimed
from django_jobs.operations.progress import write_progress
from django_jobs.testing import running_worker
from django_jobs.worker import Worker, renewer
from django_jobs.worker.run import Run
from tests.operations.desk import Desk, desks, jobs, succeeded
from tests.processes import wait_for
from tests.worker.embedded import wait_for_ends

pytestmark = pytest.mark.django_db(transaction=True)
gate = Event()


class Bench:
    """A renewer that is turned by hand, under a clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, desk: Desk, worker: Worker) -> None:
        self.now = 1000.0
        self.sent: list[str] = []
        self.desk = desk
        self.worker = worker
        self.renewer = worker.renewer
        worker.id = desk.id
        fetch = self.renewer.database.fetch

        def noted(name: str, params: Any) -> Any:
            self.sent.append(name)
            return fetch(name, params)

        monkeypatch.setattr(self.renewer.database, "fetch", noted)
        monkeypatch.setattr(renewer, "monotonic", lambda: self.now)

    def hold(self, count: int = 1) -> list[Run]:
        """Claim jobs and hold them."""
        jobs(count)
        runs = [Run(job) for job in self.desk.claim()]
        self.worker.capacity.take(runs)
        return runs

    def after(self, seconds: float) -> list[str]:
        """Return the statements of a round after so many seconds."""
        self.now += seconds
        self.sent.clear()
        self.pause = self.renewer.round()
        return list(self.sent)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    worker = Worker(Options("default"))
    with desks("one") as [desk]:
        yield Bench(monkeypatch, desk, worker)
    worker.renewer.database.close()
    worker._wakeup.close()


def shown(run: Run) -> Any:
    """What the lease of a run says; its ``done`` alone."""
    said: Any = Lease.objects.values_list("progress", flat=True).get(pk=run.job.lease)
    return said and said["done"]


# when it is written


def test_a_worker_whose_runs_say_nothing_sends_nothing_more(bench: Bench):
    bench.hold(2)
    assert ["renew", "beat"] == bench.after(0)
    assert [[]] * 4 == [bench.after(2) for _ in range(4)]
    assert ["renew", "beat"] == bench.after(2)


def test_a_thousand_words_of_all_runs_are_one_statement_every_two_seconds(bench: Bench):
    runs = bench.hold(3)
    bench.after(0)
    for number in range(1000):
        for run in runs:
            run.say((number, 1000, ""))
    assert [] == bench.after(1.9)
    assert 0.05 <= bench.pause <= 0.11
    assert ["progress"] == bench.after(0.1)
    assert [999] * 3 == [shown(run) for run in runs]
    runs[1].say((1000, 1000, ""))
    assert [] == bench.after(1.9)
    assert ["progress"] == bench.after(0.1)
    assert [999, 1000, 999] == [shown(run) for run in runs]


def test_what_was_written_is_not_written_again(bench: Bench):
    [run] = bench.hold()
    bench.after(0)
    run.say((1, 2, "half"))
    assert ["progress"] == bench.after(2)
    run.say((1, 2, "half"))
    assert [] == bench.after(2)


def test_news_renew_no_lease_any_sooner(bench: Bench):
    [run] = bench.hold()
    sent = bench.after(0)
    for number in range(1, 31):
        run.say((number, 30, ""))
        sent += bench.after(1)
    assert 4 == sent.count("renew")  # every ten seconds
    assert 4 == sent.count("beat")
    assert 15 == sent.count("progress")


def test_who_hurries_the_renewer_gets_a_renewal_and_no_more_progress(bench: Bench):
    [run] = bench.hold()
    bench.after(0)
    run.say((1, 2, ""))
    assert ["progress"] == bench.after(2)
    run.say((2, 2, ""))
    bench.renewer.hurry()
    assert ["renew", "beat"] == bench.after(0.1)
    assert ["progress"] == bench.after(1.9)
    assert 1 == shown(run) or 2 == shown(run)


def test_what_is_said_while_it_is_written_is_written_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    [run] = bench.hold()
    bench.after(0)
    run.say((1, 2, ""))

    def slow(*given: Any, **named: Any) -> set[int]:
        taken = write_progress(*given, **named)
        run.say((2, 2, ""))
        return taken

    monkeypatch.setattr(renewer, "write_progress", slow)
    assert ["progress"] == bench.after(2)
    assert 1 == shown(run)
    monkeypatch.setattr(renewer, "write_progress", write_progress)
    assert ["progress"] == bench.after(2)
    assert 2 == shown(run)


# what stands in its way


def test_a_lease_that_is_busy_is_written_the_next_time(bench: Bench):
    busy, free = bench.hold(2)
    bench.after(0)
    for run in (busy, free):
        run.say((1, 2, ""))
    with desks("other") as [other], other.open().transaction():
        other.open().execute(
            "SELECT FROM django_jobs_lease WHERE id = %s FOR UPDATE", [busy.job.lease]
        )
        assert ["progress"] == bench.after(2)
        assert [None, 1] == [shown(busy), shown(free)]
    assert ["progress"] == bench.after(2)
    assert [1, 1] == [shown(busy), shown(free)]
    assert [] == bench.after(2)


def test_a_run_that_lost_its_lease_writes_nothing_to_the_next_one(bench: Bench):
    [run] = bench.hold()
    bench.after(0)
    Lease.objects.all().delete()
    Job.objects.update(state="ready")
    with desks("two") as [two]:
        [again] = two.claim()
    run.say((1, 2, ""))
    assert ["progress"] == bench.after(2)  # it does not know yet
    assert {again.lease: None} == dict(Lease.objects.values_list("pk", "progress"))
    bench.after(8)
    assert run.lost
    run.say((2, 2, ""))
    assert [] == bench.after(2)


@pytest.mark.parametrize("name", ["outcome", "settling", "abandoned"])
def test_a_run_that_has_ended_is_not_listened_to(bench: Bench, name: str):
    [run] = bench.hold()
    bench.after(0)
    run.say((1, 2, ""))
    setattr(run, name, succeeded(run.job) if name == "outcome" else True)
    assert [] == bench.after(2)


def test_a_database_that_refuses_costs_a_warning_and_no_renewal(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    [run] = bench.hold()
    bench.after(0)
    run.say((1, 2, ""))

    def refuse(*_: Any, **__: Any) -> Any:
        raise psycopg.OperationalError("disk full\nmore")

    monkeypatch.setattr(renewer, "write_progress", refuse)
    with caplog.at_level(logging.WARNING, logger="django_jobs.worker"):
        assert [[], []] == [bench.after(2), bench.after(1)]
    assert ["progress not written, again in 2 s: disk full"] == caplog.messages
    monkeypatch.setattr(renewer, "write_progress", write_progress)
    assert ["progress"] == bench.after(1)
    assert ["renew", "beat"] == bench.after(6)
    assert (1, None, False) == (shown(run), run.outcome, run.lost)


def test_a_renewal_that_fails_is_tried_again_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    bench.hold()
    bench.after(0)
    turn = bench.renewer.turn

    def away() -> float:
        raise psycopg.OperationalError("away")

    monkeypatch.setattr(bench.renewer, "turn", away)
    bench.renewer.hurry()
    with pytest.raises(psycopg.OperationalError):
        bench.after(1)
    monkeypatch.setattr(bench.renewer, "turn", turn)
    assert ["renew", "beat"] == bench.after(0.5)


# in a real worker


@task(takes_context=True)
def speak(context: JobContext, *, by: str) -> None:
    if by == "thread":
        thread = Thread(target=context.progress, args=(3, 4, by))
        thread.start()
        thread.join()
    else:
        context.progress(3, 4, by)
    assert gate.wait(20)


@task(takes_context=True)
async def aspeak(context: JobContext) -> None:
    context.progress(3, 4, "coroutine")
    assert await asyncio.to_thread(gate.wait, 20)


def test_each_kind_of_run_is_heard_long_before_the_next_renewal():
    gate.clear()
    heard = {"task", "thread", "coroutine"}
    with running_worker(lease_seconds=120, renew_seconds=40):
        results = [speak.enqueue(by="task"), speak.enqueue(by="thread"), aspeak.enqueue()]
        wait_for(lambda: heard == {*said()}, seconds=10, what=f"{said()}")
        gate.set()
        assert ["succeeded"] * 3 == wait_for_ends(*results)


def said() -> list[str]:
    found: Any = Lease.objects.filter(progress__isnull=False).values_list("progress", flat=True)
    return [each["message"] for each in found]


def test_two_workers_write_each_their_own():
    gate.clear()
    with (
        running_worker(max_in_flight=1),
        running_worker(max_in_flight=1),
    ):
        results = [speak.enqueue(by=name) for name in "ab"]
        wait_for(lambda: {"a", "b"} == {*said()}, seconds=10, what=f"{said()}")
        assert 2 == Lease.objects.values("worker").distinct().count()
        gate.set()
        assert ["succeeded"] * 2 == wait_for_ends(*results)


def test_a_claimed_job_has_said_nothing(bench: Bench):
    [run] = bench.hold()
    assert isinstance(run.job, Claimed)
    assert (None, None) == (run.progress, shown(run))
