"""For the tests of a site: run what is enqueued, and look at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from inspect import iscoroutine
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

from asgiref.sync import async_to_sync
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_jobs import payloads
from django_jobs.compat import DEFAULT_TASK_BACKEND_ALIAS, TaskResult, task_enqueued
from django_jobs.conf import Options
from django_jobs.models import Job
from django_jobs.models import Worker as WorkerRow
from django_jobs.operations.claim import Claimed, claim
from django_jobs.operations.results import results
from django_jobs.operations.settle import settle
from django_jobs.planner import Lane
from django_jobs.sql import SiteDatabase
from django_jobs.states import JobState
from django_jobs.tasks import AnyTask
from django_jobs.worker import Worker
from django_jobs.worker.notifier import Ended, Notifier
from django_jobs.worker.perform import begin, call, judge
from django_jobs.worker.run import Run

ANY_SIZE = 2**30
MOST_JOBS = 10_000  # a task that enqueues itself must not run for ever


@dataclass(slots=True)
class Ran:
    """What run_jobs() did: job ids in the order in which their attempts ended."""

    succeeded: list[int] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)  # one entry an attempt
    ended: list[int] = field(default_factory=list)  # dead, dropped, cancelled
    put_off: list[int] = field(default_factory=list)  # snoozed, or an unknown task

    @property
    def attempts(self) -> int:
        """How many attempts were made."""
        return sum(map(len, (self.succeeded, self.retried, self.ended, self.put_off)))


def run_jobs(
    *,
    queues: Sequence[str] | None = None,
    until: datetime | timedelta | None = None,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
) -> Ran:
    """Run what is ready, here and now: in this thread and in the caller's transaction.

    It works inside TestCase. Retries follow without waiting for their backoff. Jobs that
    are scheduled run only when they are due by ``until``, a time or a span from now;
    without it, by the database's clock. Callbacks on commit that a job registers are
    executed when it ends, as they would be. Raises AssertionError after 10,000 attempts.
    """
    drain = _Drain(Options(backend), queues)
    drain.make_due(until)
    with drain.registered():
        while (job := drain.next()) is not None:
            drain.run(job)
            if drain.ran.attempts >= MOST_JOBS:
                msg = f"run_jobs() stopped after {MOST_JOBS} attempts: does a task enqueue itself?"
                raise AssertionError(msg)
            drain.make_due(until)
    return drain.ran


class _Drain:
    """A worker without threads, on the caller's connection."""

    def __init__(self, options: Options, queues: Sequence[str] | None) -> None:
        self.ran = Ran()
        self._options = options
        self._worker: UUID = uuid4()
        self._database = SiteDatabase(options.database)
        self._notifier = Notifier(database=options.database)
        self._queues = queues

    @contextmanager
    def registered(self) -> Iterator[None]:
        """Have a worker's row for as long as the drain lasts."""
        rows = WorkerRow.objects.using(self._database.alias)
        rows.create(
            id=self._worker,
            backend=self._options.alias,
            name="run_jobs",
            pid=0,
            version="",
            queues=[],
            capacity=1,
        )
        try:
            yield
        finally:
            rows.filter(pk=self._worker).delete()

    def make_due(self, until: datetime | timedelta | None) -> None:
        """Make scheduled jobs ready that are due by ``until``."""
        jobs = Job.objects.using(self._database.alias).filter(backend=self._options.alias)
        if until is None:
            jobs.due().update(state=JobState.READY)
            return
        at = timezone.now() + until if isinstance(until, timedelta) else until
        jobs.filter(state=JobState.SCHEDULED, run_after__lte=at).update(state=JobState.READY)

    def next(self) -> Claimed | None:
        """Claim one job, queue by queue."""
        lanes = [
            Lane(queue, slots=1, held=0, served=0, cost=1, turn=turn, suspect=suspect)
            for turn, queue in enumerate(self._ready_queues())
            for suspect in (False, True)
        ]
        got = claim(
            lanes,
            room=1,
            worker=self._worker,
            epoch=1,
            backend=self._options.alias,
            lease_seconds=self._options.lease_seconds,
            database=self._database,
        )
        return got.jobs[0] if got.jobs else None

    def _ready_queues(self) -> list[str]:
        if self._queues is not None:
            return list(self._queues)
        rows = self._database.fetch("queues", {"backend": self._options.alias})
        return [row[0] for row in rows]

    def run(self, job: Claimed) -> None:
        """Make one attempt and settle it."""
        run = Run(job)
        with _own_callbacks():
            task = begin(run, alias=self._options.alias)
            if task is not None:
                self._call(run, task)
        assert run.outcome is not None
        settle([run.outcome], worker=self._worker, database=self._database)
        self._note(run)

    def _call(self, run: Run, task: AnyTask) -> None:
        try:
            with _unbroken():
                value = call(run, task, is_lost=lambda _: False)
                if iscoroutine(value):
                    value = async_to_sync(_awaited)(value)
        except BaseException as error:  # noqa: BLE001 - a failed attempt, as in a worker
            judge(run, task, None, error, options=self._options)
        else:
            judge(run, task, value, None, options=self._options)

    def _note(self, run: Run) -> None:
        assert run.outcome is not None
        state, pk = run.outcome.state, run.job.id
        if run.outcome.refund:
            self.ran.put_off.append(pk)
        elif state in ("ready", "scheduled"):
            self.ran.retried.append(pk)
            Job.objects.using(self._database.alias).filter(
                pk=pk,
                state=JobState.SCHEDULED,
            ).update(state=JobState.READY)
        else:
            (self.ran.succeeded if state == "succeeded" else self.ran.ended).append(pk)
            self._notifier.announce(Ended(pk, self._options.alias))


async def _awaited(coroutine: Any) -> Any:
    return await coroutine


@contextmanager
def _unbroken() -> Iterator[None]:
    """Keep the caller's transaction usable when a run breaks it, as only its own would be.

    What a failing run wrote stays, as it does in a worker, unless the server has aborted
    the transaction: then the run's part is rolled back.
    """
    inside = [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
    ]
    points = [(connection, str(connection.savepoint())) for connection in inside]
    try:
        yield
    finally:
        for connection, point in reversed(points):
            if connection.needs_rollback or _is_aborted(connection):
                connection.needs_rollback = False
                connection.savepoint_rollback(point)
            else:
                connection.savepoint_commit(point)


def _is_aborted(connection: BaseDatabaseWrapper) -> bool:
    info: Any = getattr(connection.connection, "info", None)
    return bool(info is not None and info.transaction_status == 3)  # noqa: PLR2004 - libpq's INERROR


@contextmanager
def _own_callbacks() -> Iterator[None]:
    """Execute the callbacks on commit that were registered meanwhile."""
    inside = [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
    ]
    before = {connection: len(connection.run_on_commit) for connection in inside}
    yield
    for connection, start in before.items():
        while len(connection.run_on_commit) > start:
            registered: Any = connection.run_on_commit.pop(start)
            _, callback, robust = registered
            try:
                callback()
            except Exception:
                if not robust:
                    raise


def assert_enqueued(
    task: AnyTask,
    *,
    args: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    queue_name: str | None = None,
    count: int | None = None,
) -> list[TaskResult[..., Any]]:
    """Return the jobs of ``task`` with these arguments; fail when there are none.

    ``count`` asks for exactly so many; what is None is not compared. Jobs that have run
    count too.
    """
    alias = task.backend
    jobs = Job.objects.using(Options(alias).database).filter(backend=alias, task=task.module_path)
    wanted = {"args": None if args is None else _normal(list(args)), "kwargs": _normal(kwargs)}
    found = [
        job
        for job in jobs.order_by("id")
        if all(value is None or getattr(job, name) == value for name, value in wanted.items())
        and queue_name in (None, job.queue)
    ]
    if not found or count not in (None, len(found)):
        raise AssertionError(_told(task, jobs, wanted | {"queue_name": queue_name}, len(found)))
    by_id = results([job.pk for job in found], backend=alias, database=Options(alias).database)
    return [by_id[job.pk] for job in found]


def _normal(value: Any) -> Any:
    return (
        value
        if value is None
        else payloads.loads(payloads.dumps(value, where="expected", limit=ANY_SIZE))
    )


def _told(task: AnyTask, jobs: Any, wanted: dict[str, Any], found: int) -> str:
    asked = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not None)
    seen = "".join(
        f"\n  #{job.pk} args={job.args!r} kwargs={job.kwargs!r} queue_name={job.queue!r}"
        for job in jobs.order_by("id")[:20]
    )
    return (
        f"{found} jobs of {task.module_path} match {asked or 'it'}; enqueued are:{seen or ' none'}"
    )


@contextmanager
def capture_jobs(
    *,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
) -> Iterator[list[TaskResult[..., Any]]]:
    """Collect the results of what is enqueued inside the block."""
    captured: list[TaskResult[..., Any]] = []

    def note(sender: object, task_result: TaskResult[..., Any], **_: object) -> None:
        if task_result.backend == backend:
            captured.append(task_result)

    task_enqueued.connect(note, weak=False)
    try:
        yield captured
    finally:
        task_enqueued.disconnect(note)


@contextmanager
def running_worker(
    *,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    **options: Any,
) -> Iterator[Worker]:
    """Run a real worker in a thread, for a TransactionTestCase.

    At the end it drains, and every thread and connection of it is gone, so that the test
    database can be dropped.
    """
    worker = Worker(Options(backend, **options))
    thread = Thread(target=worker.run, name="jobs-loop", daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(worker.options.drain_seconds + 5)
        worker.join()
