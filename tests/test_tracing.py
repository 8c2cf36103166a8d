"""An enqueue and the run that follows are two spans that know each other."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_jobs import chain, task, tracing
from django_jobs.models import Job
from django_jobs.testing import run_jobs, running_worker
from tests.processes import ROOT
from tests.tasks import ok
from tests.test_docs import PACKAGE, first_column
from tests.worker.embedded import wait_for_ends

trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
export = pytest.importorskip("opentelemetry.sdk.trace.export")

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "S3CRET"
PATH = "tests.test_tracing"


class Spans:
    """What was exported."""

    def __init__(self) -> None:
        self.exporter = memory.InMemorySpanExporter()
        self.provider = sdk.TracerProvider()
        self.provider.add_span_processor(export.SimpleSpanProcessor(self.exporter))

    def of(self, kind: str) -> list[Any]:
        """The spans of one kind, in the order in which they ended."""
        return [each for each in self.exporter.get_finished_spans() if each.kind.name == kind]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    found = Spans()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", found.provider)
    yield found
    found.provider.shutdown()


@task(max_attempts=1)
def refuse(*, password: str) -> None:
    raise ValueError("no")


@task
def inner() -> str:
    with trace.get_tracer("shop").start_as_current_span("inner"):
        return "inside"


@task
async def ainner() -> None:
    with trace.get_tracer("shop").start_as_current_span("inner"):
        pass


def test_a_run_is_linked_to_its_enqueue_and_is_a_trace_of_its_own(spans: Spans):
    with trace.get_tracer("shop").start_as_current_span("request") as request:
        result = ok.enqueue(SECRET)
    with running_worker():
        wait_for_ends(result)
    [producer], [consumer] = spans.of("PRODUCER"), spans.of("CONSUMER")
    assert request.get_span_context().span_id == producer.parent.span_id
    [link] = consumer.links
    assert (producer.context.trace_id, producer.context.span_id) == (
        link.context.trace_id, link.context.span_id
    )  # fmt: skip
    assert link.context.trace_flags.sampled
    assert consumer.parent is None
    assert producer.context.trace_id != consumer.context.trace_id


def test_spans_have_the_attributes_of_messaging_and_no_argument(spans: Spans):
    result = ok.enqueue(SECRET)
    with running_worker():
        wait_for_ends(result)
    [producer], [consumer] = spans.of("PRODUCER"), spans.of("CONSUMER")
    common = {
        "messaging.system": "django_jobs",
        "messaging.destination.name": "default",
        "messaging.message.id": result.id,
    }
    assert ["send default", "process default"] == [producer.name, consumer.name]
    of = {"messaging.operation.name": "send", "messaging.operation.type": "send"}
    assert common | of == dict(producer.attributes)
    of = {"messaging.operation.name": "process", "messaging.operation.type": "process"}
    task_of = {"django_jobs.task": "tests.tasks.ok", "django_jobs.attempt": 1}
    assert common | of | task_of == dict(consumer.attributes)
    assert SECRET not in producer.to_json() + consumer.to_json()


@pytest.mark.parametrize("function", [inner, ainner])
def test_spans_that_a_task_makes_are_inside_its_run(spans: Spans, function: Any):
    result = function.enqueue()
    with running_worker():
        wait_for_ends(result)
    [made] = spans.of("INTERNAL")
    [consumer] = spans.of("CONSUMER")
    assert consumer.context.span_id == made.parent.span_id


def test_an_error_is_on_the_span_and_no_argument(spans: Spans):
    with running_worker():
        wait_for_ends(refuse.enqueue(password=SECRET))
    [consumer] = spans.of("CONSUMER")
    assert ("ERROR", "ValueError") == (
        consumer.status.status_code.name,
        consumer.status.description,
    )
    assert "ValueError" == consumer.attributes["error.type"]
    [event] = consumer.events
    assert "no" == event.attributes["exception.message"]
    assert SECRET not in consumer.to_json()


def test_an_enqueue_that_fails_is_on_its_span(spans: Spans):
    with pytest.raises(ValueError, match="no"), tracing.sending([Job(queue="default")]):
        raise ValueError("no")
    assert "ERROR" == spans.of("PRODUCER")[0].status.status_code.name


def test_a_batch_and_a_flow_are_one_span_that_every_job_keeps(spans: Spans):
    ok.enqueue_many([ok.s(number) for number in range(3)])
    [producer] = spans.of("PRODUCER")
    assert 3 == producer.attributes["messaging.batch.message_count"]
    kept = set(Job.objects.values_list("trace", flat=True))
    assert 1 == len(kept)
    found = f"00-{producer.context.trace_id:032x}-{producer.context.span_id:016x}-"
    assert str(kept.pop()).startswith(found)
    chain(ok.s(1), ok.s(2)).enqueue()
    assert 2 == len(spans.of("PRODUCER"))


def test_a_run_in_run_jobs_leaves_no_span_current(spans: Spans):
    ok.enqueue()
    with transaction.atomic():
        run_jobs()
    assert 1 == len(spans.of("CONSUMER"))
    assert not trace.get_current_span().get_span_context().is_valid


def test_without_a_provider_nothing_is_kept():
    ok.enqueue()
    assert [None] == list(Job.objects.values_list("trace", flat=True))


def test_what_is_no_traceparent_costs_the_link_alone(spans: Spans):
    result = ok.enqueue()
    Job.objects.update(trace="nonsense")
    with running_worker():
        assert ["succeeded"] == wait_for_ends(result)
    [consumer] = spans.of("CONSUMER")
    assert () == tuple(consumer.links)


@pytest.mark.parametrize("where", ["get_tracer", "start_span", "set_attribute", "end", "record"])
def test_a_tracer_that_raises_touches_no_job(
    spans: Spans, monkeypatch: pytest.MonkeyPatch, where: str
):
    def raises(*_: Any, **__: Any) -> Any:
        raise RuntimeError("of the tracer")

    owners = {"get_tracer": sdk.TracerProvider, "start_span": sdk.Tracer}
    name = "record_exception" if where == "record" else where
    monkeypatch.setattr(owners.get(where, sdk.Span), name, raises)
    with running_worker():
        ends = wait_for_ends(ok.enqueue(), refuse.enqueue(password="x"))
    assert ["succeeded", "dead"] == ends


def test_nothing_of_opentelemetry_is_loaded_by_us():
    code = (
        "import django, sys; django.setup();"
        "from django_jobs import tracing;"
        "assert tracing._api() is None;"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    environment = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": "", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)


def test_without_spans_an_enqueue_pays_microseconds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    new: Any = [Job(queue="default")]
    rounds = []
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(1000):
            with tracing.sending(new) as span:
                tracing.carried(span, new)
        rounds.append((time.perf_counter() - begun) / 1000)
    assert min(rounds) < 2e-5


def test_every_attribute_stands_in_the_how_to():
    source = (PACKAGE / "tracing.py").read_text()
    made = set(re.findall(r'"((?:messaging|django_jobs|error)\.[\w.]+)"', source))
    assert made == first_column("how-to/log-with-job-ids.md", "Attribute")


def test_a_run_under_a_span_of_its_caller_is_a_trace_of_its_own_too(spans: Spans):
    ok.enqueue()
    with trace.get_tracer("shop").start_as_current_span("test") as outer:
        run_jobs()
        assert outer is trace.get_current_span()
    assert spans.of("CONSUMER")[0].parent is None
