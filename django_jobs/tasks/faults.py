"""What is wrong with the options of a task, each with its cure. Nothing is raised here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from typing import Any

from django_jobs import payloads
from django_jobs.compat import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY
from django_jobs.conf import MOST, QUEUE_RULE, is_queue_name
from django_jobs.exceptions import InvalidLimit, InvalidPayload
from django_jobs.limits import Limit, names_in
from django_jobs.placement import Requires
from django_jobs.retries import Backoff
from django_jobs.tasks.arguments import unknown_name
from django_jobs.tasks.kept import Kept

LONGEST_PATH = 500
LONGEST_WAIT = timedelta(days=36_500)
FAR = 1e12  # seconds; NaN and what no float can hold are not below it
METADATA_BYTES = 16 * 1024
SHORTEST_RUN = 0.1  # seconds
MOST_MB = 1024 * 1024  # a terabyte
ISOLATIONS = ("thread", "process")
CONFLICTS = ("return", "raise", "replace")
PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
YEARS = range(2, 9999)  # a time must be readable in every time zone


def faults(task: Any) -> Iterator[str]:
    """Yield the faults of a JobTask's own fields; their types cannot be trusted."""
    yield from _attempts(task.max_attempts)
    yield from _backoff(task.backoff)
    yield from _classes("retry_on", task.retry_on)
    yield from _classes("give_up_on", task.give_up_on)
    yield from _switch("keep_dead", task.keep_dead)
    yield from _switch("idempotent", task.idempotent)
    yield from _metadata(task.metadata)
    yield from _requires(task.requires)
    yield from _switch("after_failure", task.after_failure)
    yield from _run_in(task)
    yield from _limit(task)
    yield from _unique(task)
    yield from _expires_after(task)
    yield from _timeout(task.timeout)
    yield from _isolation(task)
    yield from _atomic(task)


def shared_faults(task: Any) -> Iterator[str]:
    """Yield the faults of the fields of any Task that Django would trip over or let pass."""
    least, most = TASK_MIN_PRIORITY, TASK_MAX_PRIORITY
    if type(task.priority) is not int or not least <= task.priority <= most:
        yield f"priority={task.priority!r} must be a whole number from {least} to {most}"
    if not is_queue_name(task.queue_name):
        yield f"queue_name={task.queue_name!r} cannot be used: {QUEUE_RULE}"
    when = task.run_after
    if when is not None and not isinstance(when, datetime):
        yield f"run_after={when!r} must be a datetime; tasks of django_jobs take a timedelta too"
    elif when is not None and when.year not in YEARS:
        yield f"run_after={when!r} must be between the years {YEARS[0]} and {YEARS[-1]}"


def path_of(task: Any) -> str:
    """Return what names a task in a message; its function may be anything."""
    try:
        return str(task.module_path)
    except AttributeError:
        return f"func={task.func!r:.120}"


def path_fault(function: Any) -> str | None:
    """Tell why no worker would find a function of a module, or could call it."""
    module, path = function.__module__, function.__qualname__
    if "." in path:
        return (
            f"a worker calls the function with the job's arguments alone, without an object of "
            f"{path.rpartition('.')[0]}; move it out of the class, to the level of the module"
        )
    if not is_path(f"{module}.{path}"):
        return (
            "this is no path by which a worker finds the function; name it with def, in at "
            f"most {LONGEST_PATH} characters"
        )
    return None


def is_path(path: str) -> bool:
    """Tell whether ``path`` can be that of a task."""
    return len(path) <= LONGEST_PATH and PATH.fullmatch(path) is not None


def _attempts(value: object) -> Iterator[str]:
    if value is not None and (type(value) is not int or not 1 <= value <= MOST):
        yield f"max_attempts={value!r} must be a whole number from 1 to {MOST:,}"


def _backoff(value: object) -> Iterator[str]:
    if value is not None and not isinstance(value, Backoff) and not callable(value):
        yield (
            f"backoff={value!r} must be exponential(…), linear(…), constant(…) or a function of "
            "(exception, task_result) that returns seconds, or None to give up"
        )


def _classes(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, tuple):
        yield f"{name}={value!r} must be a tuple of exception classes, such as (OSError,)"
        return
    for item in value:
        if not isinstance(item, type) or not issubclass(item, BaseException):
            yield f"{name} holds {item!r}; it must hold exception classes only"


def _switch(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{name}={value!r} must be True or False"


def _metadata(value: object) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield f"metadata={value!r} must be a dictionary"
        return
    try:
        metadata_text(value)
    except InvalidPayload as error:
        yield str(error)


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Write metadata as JSON text."""
    limit = METADATA_BYTES
    return payloads.dumps(dict(metadata), where="metadata", limit=limit, setting="its limit")


def _requires(value: object) -> Iterator[str]:
    if value is not None and not isinstance(value, Requires):
        yield f"requires={value!r} must be None or Requires(…), such as Requires(labels={{'gpu'}})"


def _run_in(task: Any) -> Iterator[str]:
    if task.run_in is None:
        return
    if not isinstance(task.run_in, timedelta):
        yield f"run_in={task.run_in!r} must be a timedelta; say using(run_after=timedelta(…))"
    elif task.run_in > LONGEST_WAIT:
        yield f"run_after={task.run_in!r} must be at most {LONGEST_WAIT.days:,} days"
    elif not task.get_backend().supports_defer:
        yield f"the backend {task.backend!r} does not support run_after"


def _limit(task: Any) -> Iterator[str]:
    if task.limit is None:
        return
    if not isinstance(task.limit, Limit):
        yield (
            f"limit={task.limit!r:.120} must be None or Limit(…), such as "
            "Limit('customer:{customer_id}', size=2)"
        )
    elif isinstance(task.limit.key, str):
        yield from _key(task, task.limit.key, "limit")


def _unique(task: Any) -> Iterator[str]:
    unique, conflict = task.unique, task.on_conflict
    if not isinstance(conflict, str) or conflict not in CONFLICTS:
        yield f"on_conflict={conflict!r:.120} must be 'return', 'raise' or 'replace'"
    elif unique is None and conflict != "return":
        yield f"on_conflict={conflict!r} says nothing without unique='…'"
    if unique is not None and not callable(unique):
        try:
            yield from _key(task, unique, "unique")
        except InvalidLimit as error:
            yield str(error).rstrip(".")


def _key(task: Any, key: str, what: str) -> Iterator[str]:
    """Yield a name in ``key`` that no call of the task can fill."""
    if (name := unknown_name(task, names_in(key, what))) is not None:
        yield (
            f"{what} has the key {key!r:.120}, but the function takes no argument {name!r:.120}; "
            "name one that it takes"
        )


def _expires_after(task: Any) -> Iterator[str]:
    value = task.expires_after
    if value is None:
        return
    seconds = seconds_of(value)
    if seconds is None or not 0 < seconds <= LONGEST_WAIT.total_seconds():
        yield (
            f"expires_after={value!r:.120} must be a timedelta or seconds, above 0 and at most "
            f"{LONGEST_WAIT.days:,} days"
        )
    elif isinstance(task.run_in, timedelta) and task.run_in.total_seconds() >= seconds:
        yield (
            f"run_after={task.run_in!r} is no earlier than expires_after={value!r}, so that the "
            "job could only expire; both count from the enqueue"
        )


def _timeout(value: object) -> Iterator[str]:
    if value is None or value is Kept.KEPT:
        return
    seconds = seconds_of(value)
    if seconds is None or not SHORTEST_RUN <= seconds <= LONGEST_WAIT.total_seconds():
        yield (
            f"timeout={value!r:.120} must be a timedelta or seconds, at least {SHORTEST_RUN:g} "
            f"and at most {LONGEST_WAIT.days:,} days, or None for none"
        )


def _isolation(task: Any) -> Iterator[str]:
    where, most = task.isolation, task.memory_mb
    if not isinstance(where, str) or where not in ISOLATIONS:
        yield f"isolation={where!r:.120} must be 'thread' or 'process'"
    if most is None:
        return
    if type(most) is not int or not 1 <= most <= MOST_MB:
        yield f"memory_mb={most!r:.120} must be a whole number from 1 to {MOST_MB:,}"
    elif where == "thread":
        yield "memory_mb needs isolation='process': threads share the memory of their worker"


def _atomic(task: Any) -> Iterator[str]:
    yield from _switch("atomic", task.atomic)
    if task.atomic is True and iscoroutinefunction(task.func):
        yield "atomic=True needs a plain function: Django has no transactions in coroutines"


def seconds_of(value: object) -> float | None:
    """Return a span in seconds; None: it is no span."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < FAR else None
