"""The backend of Django's Tasks framework that keeps its jobs in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from django_jobs import payloads, tracing
from django_jobs.compat import (
    DEFAULT_TASK_QUEUE_NAME,
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_backends,
    task_enqueued,
)
from django_jobs.conf import InvalidOption, Options, problems, queue_fault, queue_names
from django_jobs.exceptions import DatabaseRefused, InvalidCall, InvalidLimit, InvalidPayload
from django_jobs.signals import send
from django_jobs.states import JobState
from django_jobs.tasks import (
    STATUS,
    AnyResult,
    AnyTask,
    Call,
    JobResult,
    JobTask,
    check_call,
    keys_of,
    path_fault,
    path_of,
    rebuild,
    row_of,
    shared_faults,
)
from django_jobs.tasks.atomic import is_atomic, misplaced
from django_jobs.tasks.coroutines import awaited
from django_jobs.tasks.ids import is_id

if TYPE_CHECKING:
    from django_jobs.operations.enqueue import Enqueued, NewJob

P = ParamSpec("P")
R = TypeVar("R")

NOT_INSTALLED = "TASKS[{!r}] uses django_jobs, which is not in INSTALLED_APPS."
INSTALL = "Add 'django_jobs' to INSTALLED_APPS and run migrate."
_FORESEEN: set[tuple[str, str, str | None]] = set()  # alias, queue, digest: asked about once
CORRECT_ENTRY = "Correct the entry or its task."
USE_POSTGRESQL = "Use PostgreSQL, or set OPTIONS['database'] to an alias that does."


class JobsBackend(BaseTaskBackend):
    """Enqueues over the caller's connection, in the caller's transaction.

    Operations are imported in the methods: Django makes the backend before apps are ready.
    """

    task_class = JobTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    is_of_django_jobs = True  # what a JobTask asks before it uses more than Django's methods

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        """Take any settings: what is wrong is for ``check`` to tell, not for a traceback.

        Wrong QUEUES let every task be declared, so that the check is reached; none enqueued.
        """
        known: list[str] = []
        with suppress(InvalidOption):
            known = queue_names(params.get("QUEUES", [DEFAULT_TASK_QUEUE_NAME]), "QUEUES")
        super().__init__(alias, {**params, "QUEUES": known})

    @property
    def conf(self) -> Options:
        """The options of this alias, as they are when they are read."""
        return Options(self.alias)

    def validate_task(self, task: AnyTask) -> None:
        """Raise ``InvalidTask`` when a task cannot be enqueued here."""
        self._require_app()
        for fault in chain(
            shared_faults(task), self._queue_faults(task), self._place_faults(task)
        ):
            raise InvalidTask(f"{path_of(task)}: {fault}")
        try:
            super().validate_task(task)
        except InvalidTask as error:
            raise InvalidTask(f"{path_of(task)}: {error}") from None
        if (unfit := path_fault(task.func)) is not None:
            raise InvalidTask(f"{path_of(task)}: {unfit}")

    def enqueue(
        self, task: Task[P, R], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> TaskResult[P, R]:
        """Insert a job."""
        result = self._insert(task, self._new(Call(task, args, kwargs), self._said(task)))
        return cast("TaskResult[P, R]", result)

    def enqueue_on_commit(self, call: Call[Any]) -> None:
        """Insert a job once the caller's transaction has committed."""
        new = self._new(call, self._said(call.task))
        with awaited(f"await {call.task.name}.aenqueue(…)"):
            insert = partial(self._insert, call.task, new)
            transaction.on_commit(insert, using=_open_alias(self._database))

    def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[str]:
        """Insert a job for each call; return the ids in the order of the calls."""
        from django_jobs.operations.enqueue import enqueue_many

        new = self._all_new(calls)
        waited = awaited("await sync_to_async(….enqueue_many)(…)")
        with waited, tracing.sending(new) as span:
            traced = tracing.carried(span, new)
            made = enqueue_many(traced, backend=self.alias, database=self._database)
        for call, job, inserted in zip(calls, new, made, strict=True):
            if inserted.created:
                self._announce(self._result(call.task, job, inserted))
        self._foresee(new)
        return [str(inserted.id) for inserted in made]

    def enqueue_flow(
        self, calls: Sequence[Call[Any]], after: Sequence[Sequence[int]]
    ) -> list[AnyResult]:
        """Insert a job for each call, tied to those before it; all or none."""
        from django_jobs.operations.enqueue_flow import enqueue_flow

        new = self._all_new(calls)
        with awaited("await ….aenqueue()"), tracing.sending(new) as span:
            traced = tracing.carried(span, new)
            made = enqueue_flow(traced, after, backend=self.alias, database=self._database)
        entries = zip(calls, new, made, strict=True)
        results = [self._result(call.task, job, inserted) for call, job, inserted in entries]
        for result, inserted in zip(results, made, strict=True):
            if inserted.created:
                self._announce(result)
        self._foresee(new)
        return results

    def get_result(self, result_id: str) -> AnyResult:
        """Return what is known of a job; raise ``TaskResultDoesNotExist`` if nothing is."""
        from django_jobs.operations.results import results

        self._require_app()
        pk = parse_id(result_id)
        with awaited("await ….aget_result(id), or await result.arefresh()"):
            found = results([pk], backend=self.alias, database=self._database)
        if pk not in found:
            raise TaskResultDoesNotExist(f"There is no job {pk} under the alias {self.alias!r}.")
        return found[pk]

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return what is wrong with the settings of this alias, and with its database."""
        if not apps.is_installed("django_jobs"):
            return [Error(NOT_INSTALLED.format(self.alias), hint=INSTALL, id="django_jobs.E012")]
        found: list[CheckMessage] = [
            Error(problem.message, hint=problem.hint, id=problem.id)
            for problem in problems(self.alias)
        ]
        return found or [
            *self._check_database(),
            *self._check_neighbours(),
            *self._check_schedules(),
        ]

    def _check_schedules(self) -> Iterator[CheckMessage]:
        from django_jobs.operations.scheduled_job import schedule_faults

        for fault in schedule_faults(self.conf):
            yield Error(fault, hint=CORRECT_ENTRY, id="django_jobs.E015")

    def _check_neighbours(self) -> Iterator[CheckMessage]:
        """Aliases that share a database judge each other's leases, by their own times."""
        for other in task_backends.all():
            if not isinstance(other, JobsBackend) or other.alias >= self.alias:
                continue  # of each pair one tells
            with suppress(InvalidOption):  # told by the other
                if other.conf.database != self.conf.database:
                    continue
                mine, theirs = _lease_times(self.conf), _lease_times(other.conf)
                if mine != theirs:
                    yield Error(
                        f"TASKS[{self.alias!r}] and TASKS[{other.alias!r}] share a database, but "
                        f"their lease and renewal times differ: {mine} and {theirs} seconds.",
                        hint="Give them the same lease_seconds and renew_seconds: every worker "
                        "rescues the jobs of both.",
                        id="django_jobs.E013",
                    )

    def _check_database(self) -> Iterator[CheckMessage]:
        try:
            fault = self._database_fault(self.conf.database)
        except InvalidOption:  # told with the other options
            return
        if fault is not None:
            yield Error(fault, hint=USE_POSTGRESQL, id="django_jobs.E001")

    def _database_fault(self, alias: str) -> str | None:
        vendor = connections[alias].vendor
        if vendor == "postgresql":
            return None
        return (
            f"TASKS[{self.alias!r}] keeps its jobs in the database {alias!r}, which is "
            f"{vendor}; claims rest on row locks and SKIP LOCKED as PostgreSQL has them."
        )

    def _require_app(self) -> None:
        if apps.apps_ready and not apps.is_installed("django_jobs"):  # before, nobody knows
            raise ImproperlyConfigured(f"{NOT_INSTALLED.format(self.alias)} {INSTALL}")

    @property
    def _database(self) -> str:
        """The alias of a database that can hold jobs."""
        alias = self.conf.database
        if (fault := self._database_fault(alias)) is not None:
            raise DatabaseRefused(f"{fault} {USE_POSTGRESQL}")
        return alias

    def _queue_faults(self, task: AnyTask) -> Iterator[str]:
        if self.queues and task.queue_name not in self.queues:
            fault = queue_fault(task.queue_name, self.conf)
            if fault is not None:
                yield f"queue_name={task.queue_name!r} {fault}"

    def _place_faults(self, task: AnyTask) -> Iterator[str]:
        if is_atomic(task) and (fault := misplaced(self.conf)) is not None:
            yield fault

    def _said(self, task: AnyTask) -> dict[str, Any]:
        """Return what a job's row says of its task, once the task has been checked."""
        self.validate_task(task)
        if not self.queues:
            _ = self.conf.queue_names  # which raises when they are wrong
        return row_of(task, self.conf)

    def new_job(self, task: AnyTask, args: Sequence[Any], kwargs: dict[str, Any]) -> NewJob:
        """Return what is written for one job, once all of it has been checked."""
        return self._new(Call(task, args, kwargs), self._said(task))

    def announce(self, task: AnyTask, new: NewJob, made: Enqueued) -> None:
        """Send ``task_enqueued`` for a job that is in the table."""
        self._announce(self._result(task, new, made))

    def _new(self, call: Call[Any], said: dict[str, Any]) -> NewJob:
        from django_jobs.operations.enqueue import NewJob

        check_call(call.task, call.args, call.kwargs)
        limit = self.conf.max_payload_bytes
        args, kwargs = payloads.arguments(call.args, call.kwargs, limit=limit)
        keys = keys_of(call.task, call.args, call.kwargs)
        return NewJob(args=args, kwargs=kwargs, **said, **keys)

    def _all_new(self, calls: Sequence[Call[Any]]) -> list[NewJob]:
        """Check each task once, and each call; a refusal tells which call it was."""
        tasks = {id(call.task): call.task for call in calls}
        said = {key: self._said(task) for key, task in tasks.items()}
        new: list[NewJob] = []
        try:
            for call in calls:
                new.append(self._new(call, said[id(call.task)]))  # noqa: PERF401 - it counts
        except (InvalidCall, InvalidPayload, InvalidLimit) as error:
            raise type(error)(f"Item {len(new)}: {error}") from error.__cause__
        return new

    def _insert(self, task: AnyTask, new: NewJob) -> AnyResult:
        from django_jobs.operations.enqueue import enqueue

        with awaited(f"await {task.name}.aenqueue(…)"), tracing.sending([new]) as span:
            made = enqueue(
                *tracing.carried(span, [new]), backend=self.alias, database=self._database
            )
            tracing.sent(span, made.id)
        if not made.created:
            return self._there(task, new, made)
        result = self._result(task, new, made)
        self._announce(result)
        self._foresee([new])
        return result

    def _there(self, task: AnyTask, new: NewJob, made: Enqueued) -> AnyResult:
        """Return the live job that has the key; should it just be gone, what was seen of it."""
        from django_jobs.operations.results import results

        with awaited(f"await {task.name}.aenqueue(…)"):
            found = results([made.id], backend=self.alias, database=self._database)
        result = found.get(made.id) or self._result(task, new, made)
        object.__setattr__(result, "created", False)
        return result

    def _foresee(self, new: Sequence[NewJob]) -> None:
        """Warn, once a process, of a queue or placement that no live worker could take."""
        from django_jobs.operations.foresee import forewarn
        from django_jobs.placement import Needs

        asked = {(job.queue, job.needs.digest if job.needs else None): job for job in new}
        fresh = {key: job for key, job in asked.items() if (self.alias, *key) not in _FORESEEN}
        if fresh:
            _FORESEEN.update((self.alias, *key) for key in fresh)
            needed = [(job.needs or Needs(), job.queue) for job in fresh.values()]
            with awaited("await ….aenqueue(…)"):
                forewarn(needed, backend=self.alias, database=self._database)

    def _announce(self, result: AnyResult) -> None:
        send(task_enqueued, sender=type(self), task_result=result)

    def _result(self, task: AnyTask, new: NewJob, made: Enqueued) -> AnyResult:
        state = JobState(made.state)
        return JobResult(
            task=task if task.backend == self.alias else rebuild(task, backend=self.alias),
            id=str(made.id),
            status=STATUS[state],
            enqueued_at=made.enqueued_at,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=payloads.loads(new.args),
            kwargs=payloads.loads(new.kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
            state=state,
            metadata=payloads.loads(new.metadata) if new.metadata else {},
            created=made.created,
        )


def _lease_times(options: Options) -> tuple[float, float]:
    return options.lease_seconds, options.renew_seconds


def _open_alias(mine: str) -> str:
    """Return the alias whose transaction the caller has open, before all the jobs' own.

    Where jobs have a database of their own, what they wait for is committed in another.
    """
    opened = [
        found.alias for found in connections.all(initialized_only=True) if found.in_atomic_block
    ]
    first = [alias for alias in (mine, DEFAULT_DB_ALIAS) if alias in opened]
    return [*first, *opened, mine][0]


def parse_id(text: object) -> int:
    """Return the number of a job; much that int() takes is no id."""
    if not is_id(text):
        raise TaskResultDoesNotExist(f"{text!r:.60} is not the id of a job.")
    return int(text)
