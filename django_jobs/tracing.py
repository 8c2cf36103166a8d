"""Spans of OpenTelemetry, where the process has loaded it; else nothing.

It is never imported from here first: a process whose spans go anywhere has loaded it to say
where, and in all others this costs one look into ``sys.modules``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from django_jobs.logs import Named

logger = logging.getLogger("django_jobs")

NAME = "django_jobs"  # of the tracer, and of the messaging system
_failed: set[str] = set()  # told of once, for there may be one for each job


def _api() -> Any:
    """Return OpenTelemetry's ``trace`` if somebody has loaded all of it."""
    trace = sys.modules.get("opentelemetry.trace")
    return trace if hasattr(trace, "get_tracer") else None


def _safely(what: str, call: Callable[[], Any]) -> Any:
    """Return what ``call`` returns; a fault of a tracer is told once and is no job's."""
    try:
        return call()
    except Exception:
        if what not in _failed:
            _failed.add(what)
            logger.exception("tracing failed, which is told once: %s", what)
        return None


# At an enqueue


class New(Protocol):
    """A job before it is written."""

    @property
    def queue(self) -> str:
        """Where it will wait."""


N = TypeVar("N", bound=New)


@contextmanager
def sending(new: Sequence[New]) -> Iterator[Any]:
    """Have a producer span for the block; it yields the span, or None."""
    trace = _api()
    if trace is None:
        yield None
        return
    span = _safely("send", lambda: _producer(trace, new))
    try:
        yield span
    except BaseException as error:
        end(span, error)
        raise
    end(span, None)


def carried(span: Any, new: Sequence[N]) -> Sequence[N]:
    """Return the jobs with what each keeps of the span that enqueues it."""
    parent = None if span is None else _safely("carry", lambda: _traceparent(span))
    if parent is None:
        return new
    return [replace(job, trace=parent) for job in new]  # type: ignore[type-var]


def sent(span: Any, job: int) -> None:
    """Write the id of the job on the span that enqueued it."""
    if span is not None:
        _safely("id", lambda: span.set_attribute("messaging.message.id", str(job)))


def _producer(trace: Any, new: Sequence[New]) -> Any:
    queues = {job.queue for job in new}
    queue = queues.pop() if len(queues) == 1 else None
    about = _common(queue, "send")
    if len(new) != 1:
        about["messaging.batch.message_count"] = len(new)
    tracer = trace.get_tracer(NAME)
    name = "send" if queue is None else f"send {queue}"
    return tracer.start_span(name, kind=trace.SpanKind.PRODUCER, attributes=about)


def _traceparent(span: Any) -> str | None:
    context = span.get_span_context()
    if not context.is_valid:  # nobody has said where spans go
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _common(queue: str | None, operation: str) -> dict[str, Any]:
    return {
        "messaging.system": NAME,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        **({} if queue is None else {"messaging.destination.name": queue}),
    }


# Of a run


def begin(job: Named, parent: str | None) -> Any:
    """Begin the span of a run, make it the current one of this context, and return it."""
    trace = _api()
    if trace is None:
        return None
    return _safely("run", lambda: _begin(trace, job, parent))


@contextmanager
def apart() -> Iterator[None]:
    """Let the span that is current before the block be so after it."""
    if _api() is None:
        yield
        return
    from opentelemetry import context

    token = context.attach(context.get_current())
    try:
        yield
    finally:
        context.detach(token)


def end(span: Any, error: BaseException | None) -> None:
    """End a span, None is none; what the exception says is recorded, as in the job's error."""
    if span is not None:
        if error is not None:
            _safely("error", lambda: _record(span, error))
        _safely("end", span.end)


def _begin(trace: Any, job: Named, parent: str | None) -> Any:
    from opentelemetry import context

    about = _common(job.queue, "process") | {
        "messaging.message.id": str(job.id),
        "django_jobs.task": job.task,
        "django_jobs.attempt": job.attempt,
    }
    links = [] if parent is None else _safely("link", lambda: _links(trace, parent))
    span = trace.get_tracer(NAME).start_span(
        f"process {job.queue}",
        context=context.Context(),  # a trace of its own: it may run days after its enqueue
        kind=trace.SpanKind.CONSUMER,
        attributes=about,
        links=links,
    )
    context.attach(trace.set_span_in_context(span))
    return span


def _links(trace: Any, parent: str) -> list[Any]:
    _, trace_id, span_id, flags = parent.split("-")
    flags = trace.TraceFlags(int(flags, 16))
    context = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, flags)
    return [trace.Link(context)]


def _record(span: Any, error: BaseException) -> None:
    kind = type(error).__qualname__
    span.record_exception(error)
    span.set_attribute("error.type", kind)
    span.set_status(_api().Status(_api().StatusCode.ERROR, kind))
