"""Runs jobs in the caller's thread and transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from inspect import iscoroutine
from typing import Any
from uuid import UUID, uuid4

from asgiref.sync import async_to_sync
from django.utils import timezone

from django_jobs import logs, tracing
from django_jobs.compat import DEFAULT_TASK_BACKEND_ALIAS, InvalidTask
from django_jobs.conf import Options, queue_fault
from django_jobs.models import Job
from django_jobs.models import Worker as WorkerRow
from django_jobs.operations.claim import Claimed, Pass, claim
from django_jobs.operations.follow import follow
from django_jobs.operations.free import Freed, set_free
from django_jobs.operations.settle import settle
from django_jobs.planner import Lane
from django_jobs.sql import SiteDatabase
from django_jobs.states import FINAL, JobState
from django_jobs.tasks import AnyTask
from django_jobs.tasks.atomic import is_atomic, misplaced
from django_jobs.tasks.coroutines import awaited
from django_jobs.testing.transactions import own_callbacks, own_part, unbroken
from django_jobs.worker import outcomes
from django_jobs.worker.atomic import Undo
from django_jobs.worker.hosting import knows
from django_jobs.worker.notifier import Ended, Notifier
from django_jobs.worker.perform import begin, call, judge
from django_jobs.worker.run import Run

MOST_JOBS = 10_000  # a task that enqueues itself must not run for ever


@dataclass(slots=True)
class Ran:
    """What run_jobs() did: job ids in the order in which their attempts ended."""

    succeeded: list[int] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)  # one entry an attempt
    ended: list[int] = field(default_factory=list)  # dead, dropped, cancelled, expired
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
    options = Options(backend)
    drain = _Drain(options, None if queues is None else _known(queues, options))
    with awaited("await sync_to_async(run_jobs)(…)"):
        drain.free()
        drain.make_due(until)
    with drain.registered():
        while (job := drain.next()) is not None:
            drain.run(job)
            if drain.ran.attempts >= MOST_JOBS:
                msg = f"run_jobs() stopped after {MOST_JOBS} attempts: does a task enqueue itself?"
                raise AssertionError(msg)
            drain.make_due(until)
    return drain.ran


def _known(queues: Sequence[str], options: Options) -> list[str]:
    """Return the names, each one that a job can have."""
    if isinstance(queues, str):
        raise TypeError(f"queues={queues!r} must be a list of names; say queues=[{queues!r}]")
    for name in queues:
        if fault := queue_fault(name, options):
            raise ValueError(f"queues={list(queues)!r}: {name!r} {fault}")
    return list(queues)


class _Drain:
    """A worker without threads, on the caller's connection."""

    def __init__(self, options: Options, queues: list[str] | None) -> None:
        self.ran = Ran()
        self._options = options
        self._worker: UUID = uuid4()
        self._database = SiteDatabase(options.database)
        self._notifier = Notifier(database=options.database)
        self._queues = queues
        self._unknown: set[int] = set()  # jobs whose task is unknown: nothing changes that here

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
        jobs = jobs.exclude(pk__in=self._unknown)
        if until is None:
            jobs.due().update(state=JobState.READY)
            return
        at = timezone.now() + until if isinstance(until, timedelta) else until
        jobs.filter(state=JobState.SCHEDULED, run_after__lte=at).update(state=JobState.READY)

    def next(self) -> Claimed | None:
        """Claim one job, queue by queue; what may not run now is out of the way then."""
        while True:
            got = self._claim()
            self._mind_others(got)
            if got.jobs or not got.others:
                return got.jobs[0] if got.jobs else None

    def _claim(self) -> Pass:
        lanes = [
            Lane(queue, 1, 0, 0, 1, turn, placement=placement, suspect=suspect)
            for turn, queue in enumerate(self._ready_queues())
            for placement in self._placements()
            for suspect in (False, True)
        ]
        return claim(
            lanes,
            room=1,
            worker=self._worker,
            epoch=1,
            backend=self._options.alias,
            lease_seconds=self._options.lease_seconds,
            database=self._database,
        )

    def _mind_others(self, got: Pass) -> None:
        """Announce what the claim itself has ended."""
        ended = [other.id for other in got.others if other.state in FINAL]
        for pk in ended:
            self.ran.ended.append(pk)
            self._notifier.announce(Ended(pk, self._options.alias))
        if ended:
            self._mind(set_free(ended, worker=self._worker, database=self._database))

    def _ready_queues(self) -> list[str]:
        if self._queues is not None:
            return self._queues
        rows = self._database.fetch("queues", {"backend": self._options.alias})
        return [row[0] for row in rows]

    def _placements(self) -> list[int]:
        """Return all whose task is known: what else a job asks of a host, a test has."""
        rows = self._database.fetch("placements", {})
        return [0, *(pk for pk, *_asked, task in rows if task is None or knows(task))]

    def run(self, job: Claimed) -> None:
        """Make one attempt and settle it."""
        run = Run(job)
        with logs.about(job), tracing.apart(), own_callbacks():
            task = begin(run, alias=self._options.alias)
            if task is not None:
                self._call(run, task)
        assert run.outcome is not None
        answers = settle([run.outcome], worker=self._worker, database=self._database)
        self._note(run)
        self._mind(follow(answers, worker=self._worker, database=self._database))

    def free(self) -> None:
        """Free what waits for nothing: in TestCase nothing is looked at on commit."""
        jobs = Job.objects.using(self._database.alias).filter(backend=self._options.alias)
        waiting = list(jobs.filter(state=JobState.WAITING).values_list("pk", flat=True))
        if waiting:
            self._mind(set_free(children=waiting, worker=self._worker, database=self._database))

    def _mind(self, freed: Sequence[Freed]) -> None:
        for job in freed:
            if job.state == JobState.CANCELLED:
                self.ran.ended.append(job.id)
                self._notifier.announce(Ended(job.id, job.backend))

    def _call(self, run: Run, task: AnyTask) -> None:
        value, error = None, None
        try:
            with unbroken(), self._part(run, task):
                value = call(run, task, is_lost=lambda _: False)
                if iscoroutine(value):
                    value = async_to_sync(_awaited)(value)
                if is_atomic(task):
                    self._require_success(run, value)
        except Undo:  # its outcome is no success, as is judged below
            pass
        except BaseException as raised:  # noqa: BLE001 - a failed attempt, as in a worker
            error = raised
        judge(run, task, value, error, options=self._options)

    def _require_success(self, run: Run, value: Any) -> None:
        if outcomes.returned(run.job, value, options=self._options)[1] is not None:
            raise Undo

    def _part(self, run: Run, task: AnyTask) -> AbstractContextManager[None]:
        """Return the part of the caller's transaction that only a success leaves there."""
        if not is_atomic(task):
            return nullcontext()
        if (fault := misplaced(self._options)) is not None:
            raise InvalidTask(fault)
        return own_part(self._database.alias, job=run.job.id)

    def _note(self, run: Run) -> None:
        assert run.outcome is not None
        state, pk = run.outcome.state, run.job.id
        if run.outcome.refund:
            self.ran.put_off.append(pk)
            if run.outcome.kind == "unknown_task":
                self._unknown.add(pk)
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
