"""What is wrong with the options of a task, each with its cure. Nothing is raised here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django_jobs import payloads
from django_jobs.conf import MOST
from django_jobs.exceptions import InvalidPayload
from django_jobs.retries import Backoff

LONGEST_DELAY = timedelta(days=36_500)
METADATA_BYTES = 16 * 1024


def faults(task: Any) -> Iterator[str]:
    """Yield the faults of a JobTask's own fields; their types cannot be trusted."""
    yield from _attempts(task.max_attempts)
    yield from _backoff(task.backoff)
    yield from _classes("retry_on", task.retry_on)
    yield from _classes("give_up_on", task.give_up_on)
    yield from _switch("keep_dead", task.keep_dead)
    yield from _switch("idempotent", task.idempotent)
    yield from _metadata(task.metadata)
    yield from _delay(task)


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


def _delay(task: Any) -> Iterator[str]:
    if task.delay is None:
        return
    if not isinstance(task.delay, timedelta):
        yield f"delay={task.delay!r} must be a timedelta; say using(run_after=timedelta(…))"
    elif task.delay > LONGEST_DELAY:
        yield f"run_after={task.delay!r} must be at most {LONGEST_DELAY.days:,} days"
    elif not task.get_backend().supports_defer:
        yield f"the backend {task.backend!r} does not support run_after"
