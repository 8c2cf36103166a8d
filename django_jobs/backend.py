"""The backend of Django's Tasks framework that keeps its jobs in PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.db import connections, transaction
from django.utils import timezone

from django_jobs import payloads
from django_jobs.compat import (
    DEFAULT_TASK_QUEUE_NAME,
    TASK_MAX_PRIORITY,
    TASK_MIN_PRIORITY,
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_backends,
    task_enqueued,
)
from django_jobs.conf import QUEUE_RULE, InvalidOption, Options, is_queue_name, problems
from django_jobs.exceptions import InvalidPayload
from django_jobs.retries import Backoff, class_path
from django_jobs.states import JobState
from django_jobs.tasks import (
    STATUS,
    AnyResult,
    AnyTask,
    Call,
    JobResult,
    JobTask,
    is_path,
    placeholder,
    rebuild,
)
from django_jobs.tasks.faults import metadata_text
from django_jobs.tasks.lookup import LONGEST_PATH

if TYPE_CHECKING:
    from django_jobs.operations.enqueue import Enqueued, NewJob

P = ParamSpec("P")
R = TypeVar("R")

ID = re.compile(r"[1-9][0-9]{0,18}")
LARGEST_ID = 2**63 - 1
PLAIN = placeholder("django.tasks.task")  # the options of a task that is not ours
YEARS = range(2, 9999)  # a time must be readable in every time zone


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
        """Take any settings: what is wrong is for ``check`` to tell, not for a traceback."""
        names = params.get("QUEUES", [DEFAULT_TASK_QUEUE_NAME])
        known = filter(is_queue_name, names if isinstance(names, Collection) else ())
        super().__init__(alias, {**params, "QUEUES": list(known)})

    @property
    def conf(self) -> Options:
        """The options of this alias, as they are when they are read."""
        return Options(self.alias)

    def validate_task(self, task: AnyTask) -> None:
        """Raise ``InvalidTask`` when a task cannot be enqueued here."""
        for fault in _faults(task):
            raise InvalidTask(fault)
        super().validate_task(task)
        if not is_path(task.module_path):
            raise InvalidTask(
                f"{task.module_path!r} is no path by which a worker finds the function; name it "
                f"with def, in at most {LONGEST_PATH} characters."
            )

    def enqueue(
        self, task: Task[P, R], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> TaskResult[P, R]:
        """Insert a job."""
        result = self._insert(task, self._new(Call(task, args, kwargs), self._said(task)))
        return cast("TaskResult[P, R]", result)

    def enqueue_on_commit(self, call: Call[Any]) -> None:
        """Insert a job once the caller's transaction has committed."""
        new = self._new(call, self._said(call.task))
        transaction.on_commit(partial(self._insert, call.task, new), using=self.conf.database)

    def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[str]:
        """Insert a job for each call; return the ids in the order of the calls."""
        from django_jobs.operations.enqueue import enqueue_many

        new = self._all_new(calls)
        made = enqueue_many(new, backend=self.alias, database=self.conf.database)
        for call, job, inserted in zip(calls, new, made, strict=True):
            self._announce(self._result(call.task, job, inserted))
        return [str(inserted.id) for inserted in made]

    def get_result(self, result_id: str) -> AnyResult:
        """Return what is known of a job; raise ``TaskResultDoesNotExist`` if nothing is."""
        from django_jobs.operations.results import results

        pk = parse_id(result_id)
        found = results([pk], backend=self.alias, database=self.conf.database)
        if pk not in found:
            raise TaskResultDoesNotExist(f"There is no job {pk} under the alias {self.alias!r}.")
        return found[pk]

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return what is wrong with the settings of this alias, and with its database."""
        if not apps.is_installed("django_jobs"):
            return [
                Error(
                    "TASKS uses django_jobs, which is not in INSTALLED_APPS.",
                    hint="Add 'django_jobs' to INSTALLED_APPS and run migrate.",
                    id="django_jobs.E012",
                ),
            ]
        found: list[CheckMessage] = [
            Error(problem.message, hint=problem.hint, id=problem.id)
            for problem in problems(self.alias)
        ]
        return found or [*self._check_database(), *self._check_neighbours()]

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
            alias = self.conf.database
        except InvalidOption:  # told with the other options
            return
        vendor = connections[alias].vendor
        if vendor != "postgresql":
            yield Error(
                f"TASKS[{self.alias!r}] keeps its jobs in the database {alias!r}, which is "
                f"{vendor}; claims rest on row locks and SKIP LOCKED as PostgreSQL has them.",
                hint="Use PostgreSQL, or set OPTIONS['database'] to an alias that does.",
                id="django_jobs.E001",
            )

    def _said(self, task: AnyTask) -> dict[str, Any]:
        """Return what a job's row says of its task, once the task has been checked."""
        self.validate_task(task)
        return {
            "task": task.module_path,
            "queue": task.queue_name,
            "priority": task.priority,
            **_times(task),
            **_policy(task if isinstance(task, JobTask) else PLAIN, self.conf),
        }

    def _new(self, call: Call[Any], said: dict[str, Any]) -> NewJob:
        from django_jobs.operations.enqueue import NewJob

        limit = self.conf.max_payload_bytes
        args, kwargs = payloads.arguments(call.args, call.kwargs, limit=limit)
        return NewJob(args=args, kwargs=kwargs, **said)

    def _all_new(self, calls: Sequence[Call[Any]]) -> list[NewJob]:
        """Check each task once, and each call; a refusal tells which call it was."""
        tasks = {id(call.task): call.task for call in calls}
        said = {key: self._said(task) for key, task in tasks.items()}
        new: list[NewJob] = []
        try:
            for call in calls:
                new.append(self._new(call, said[id(call.task)]))  # noqa: PERF401 - it counts
        except InvalidPayload as error:
            raise InvalidPayload(f"Item {len(new)}: {error}") from None
        return new

    def _insert(self, task: AnyTask, new: NewJob) -> AnyResult:
        from django_jobs.operations.enqueue import enqueue

        made = enqueue(new, backend=self.alias, database=self.conf.database)
        result = self._result(task, new, made)
        self._announce(result)
        return result

    def _announce(self, result: AnyResult) -> None:
        task_enqueued.send_robust(sender=type(self), task_result=result)

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
        )


def _lease_times(options: Options) -> tuple[float, float]:
    return options.lease_seconds, options.renew_seconds


def parse_id(text: object) -> int:
    """Return the number of a job; much that int() takes is no id."""
    if not isinstance(text, str) or not ID.fullmatch(text) or int(text) > LARGEST_ID:
        raise TaskResultDoesNotExist(f"{text!r:.60} is not the id of a job.")
    return int(text)


def _faults(task: Any) -> Iterator[str]:
    """Yield what Django's validation would trip over or let pass."""
    if type(task.priority) is not int:
        least, most = TASK_MIN_PRIORITY, TASK_MAX_PRIORITY
        yield f"priority={task.priority!r} must be a whole number from {least} to {most}."
    if not is_queue_name(task.queue_name):
        yield f"queue_name={task.queue_name!r} cannot be used: {QUEUE_RULE}."
    when = task.run_after
    if when is not None and not isinstance(when, datetime):
        yield f"run_after={when!r} must be a datetime; tasks of django_jobs take a timedelta too."
    elif when is not None and when.year not in YEARS:
        yield f"run_after={when!r} must be between the years {YEARS[0]} and {YEARS[-1]}."


def _times(task: AnyTask) -> dict[str, Any]:
    when, delay = task.run_after, getattr(task, "delay", None)
    if when is not None and timezone.is_naive(when):  # only where USE_TZ is False
        when = timezone.make_aware(when)
    return {
        "run_after": when,
        "delay": None if delay is None else max(delay.total_seconds(), 0.0),
    }


def _policy(task: JobTask[..., Any], options: Options) -> dict[str, Any]:
    """Return the retry policy as the job's row keeps it, whatever is deployed later.

    A function as backoff cannot be kept; the numbers of the settings stand in for it.
    """
    backoff = task.backoff if isinstance(task.backoff, Backoff) else options.backoff
    metadata = task.metadata
    return {
        "metadata": None if metadata is None else metadata_text(metadata),
        "max_attempts": options.max_attempts if task.max_attempts is None else task.max_attempts,
        "backoff": backoff.kind,
        "backoff_base": float(backoff.base),  # ints among floats make no array
        "backoff_cap": float(backoff.cap),
        "backoff_jitter": float(backoff.jitter),
        "retry_on": None if task.retry_on == (Exception,) else _paths(task.retry_on),
        "give_up_on": _paths(task.give_up_on) or None,
        "keep_dead": task.keep_dead,
        "idempotent": task.idempotent,
    }


def _paths(classes: Iterable[type[BaseException]]) -> list[str]:
    return [class_path(kind) for kind in classes]
