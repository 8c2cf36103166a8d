"""A line of the log names its job, and never what the job was given."""

from __future__ import annotations

import asyncio
import logging
import logging.config
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from threading import enumerate as live_threads
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.dispatch import Signal

from django_jobs import constant, task, watchers
from django_jobs.compat import task_finished, task_started
from django_jobs.logs import OURS, JobFilter
from django_jobs.models import Event as HistoryEvent
from django_jobs.models import Job
from django_jobs.operations.act import Actor
from django_jobs.operations.cancel import cancel
from django_jobs.testing import run_jobs, running_worker
from django_jobs.worker import runs
from tests.processes import wait_for
from tests.test_docs import PACKAGE, blocks, first_column, text_of
from tests.worker.embedded import rescued_later, row, wait_for_ends, wait_for_state

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "S3CRET"
ANA = Actor(name="ana", via="cli")
FIELDS = ("job_id", "task", "queue", "attempt")
logger = logging.getLogger("shop.orders")
gate = Event()


class Kept(logging.Handler):
    """Keeps every record, as a handler of a site writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(JobFilter())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def fields(self, message: str) -> list[tuple[Any, ...]]:
        """The fields of each record with this message."""
        found = [each for each in self.records if each.getMessage() == message]
        return [tuple(getattr(each, name) for name in FIELDS) for each in found]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, root = Kept(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    gate.clear()
    yield handler
    gate.set()
    root.removeHandler(handler)
    root.setLevel(level)


@task(max_attempts=2, backoff=constant(0))
def speak(*, fails: bool = False) -> None:
    logger.info("in a thread")
    if fails:
        raise ValueError("no")


@task
async def aspeak(number: int) -> None:
    logger.info("before %s", number)
    await asyncio.sleep(0.05)
    logger.info("after %s", number)
    await sync_to_async(logger.info)("beside %s", number)


# the filter


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "retries"])
def test_records_of_a_run_name_its_job_and_attempt(kept: Kept, fails: bool):
    with running_worker():
        result = speak.enqueue(fails=fails)
        wait_for_ends(result)
    job, path = int(result.id), "tests.worker.test_logs.speak"
    attempts = [1, 2] if fails else [1]
    assert [(job, path, "default", attempt) for attempt in attempts] == kept.fields("in a thread")


def test_coroutines_that_share_a_thread_name_each_its_own_job(kept: Kept):
    with running_worker(max_in_flight=5):
        results = [aspeak.enqueue(number) for number in range(5)]
        wait_for_ends(*results)
    for number, result in enumerate(results):
        for when in ("before", "after", "beside"):
            [(job, *_)] = kept.fields(f"{when} {number}")
            assert int(result.id) == job


def test_after_a_run_its_thread_is_about_no_job(kept: Kept, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "tidy_connections", lambda _: logger.info("after the run"))
    with running_worker(max_in_flight=1):
        wait_for_ends(speak.enqueue())
        wait_for(lambda: kept.fields("after the run"))
    assert [("-", "-", "-", "-")] == kept.fields("after the run")


def test_what_receivers_log_names_the_job_too(kept: Kept):
    def receive(signal: Signal, **_: Any) -> None:
        logger.info("started" if signal is task_started else "finished")

    for signal in (task_started, task_finished):
        signal.connect(receive)
    try:
        with running_worker():
            result = speak.enqueue()
            wait_for_ends(result)
            wait_for(lambda: kept.fields("finished"))
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(receive)
    for message in ("started", "finished"):
        assert [(int(result.id), 1)] == [(job, n) for job, *_, n in kept.fields(message)]


def test_run_jobs_names_the_job_and_leaves_nothing_behind(kept: Kept):
    result = speak.enqueue()
    run_jobs()
    logger.info("later")
    assert [int(result.id)] == [job for job, *_ in kept.fields("in a thread")]
    assert [("-", "-", "-", "-")] == kept.fields("later")


def test_a_record_that_has_fields_keeps_them():
    record = logging.makeLogRecord({"job_id": 7, "queue": "theirs"})
    assert JobFilter().filter(record)
    assert (7, "-", "theirs", "-") == tuple(getattr(record, name) for name in FIELDS)


def test_the_settings_and_fields_shown_are_those_of_the_filter():
    names: dict[str, Any] = {}
    text = text_of("how-to/log-with-job-ids.md")
    exec(blocks(text, "python")[0], names)
    shown = names["LOGGING"]
    made = logging.config.DictConfigurator(shown).configure_filter(shown["filters"]["job"])
    assert isinstance(made, JobFilter)
    assert set(FIELDS) == first_column("how-to/log-with-job-ids.md", "Field")


# secrets


@task(max_attempts=2, backoff=constant(0))
def fail_with(*, password: str) -> None:
    raise ValueError("the login failed")


@task
def wait_with(*, password: str) -> None:
    gate.wait(20)


@task
async def afail_with(*, password: str) -> None:
    raise KeyError("nobody")


@task(timeout=0.1)
async def aoverstay_with(*, password: str) -> None:
    await asyncio.sleep(20)


@pytest.mark.slow
def test_arguments_are_in_no_record_and_in_no_event(kept: Kept):
    with running_worker(max_in_flight=4, drain_seconds=1) as worker:
        tasks = (fail_with, afail_with, aoverstay_with)
        failed = [each.enqueue(password=SECRET) for each in tasks]
        wait_for_ends(*failed)
        asked = wait_with.enqueue(password=SECRET)
        wait_for_state(asked, "running")
        cancel([int(asked.id)], actor=ANA, database="default")
        lost = wait_with.enqueue(password=SECRET)
        wait_for_state(lost, "running")
        rescued_later(lost)
        gate.set()
        wait_for(lambda: worker.in_flight == 0)
    cancelled = wait_with.enqueue(password=SECRET)
    cancel([int(cancelled.id)], actor=ANA, database="default")
    assert {"failed", "dead", "timed_out", "rescued", "cancelled"} <= {
        event.kind for event in HistoryEvent.objects.all()
    }
    for record in kept.records:
        assert SECRET not in logging.Formatter().format(record)
        assert SECRET not in repr(record.__dict__)
    assert not HistoryEvent.objects.filter(data__contains=SECRET).exists()
    assert not Job.objects.filter(error__contains=SECRET).exists()
    assert SECRET in row(lost).kwargs["password"]


# errors of what only looks on


def raises(*_: Any, **__: Any) -> Any:
    raise RuntimeError("of the observer")


@contextmanager
def observed(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let one kind of observer raise at everything that it is told."""
    handler = logging.Handler()
    ours = logging.getLogger("django_jobs")
    root = logging.getLogger()
    level = ours.level
    if kind in ("handler", "filter"):
        monkeypatch.setattr(handler, "handle" if kind == "handler" else "filter", raises)
        root.addHandler(handler)  # so Django's lines on receivers and jobs raise too
        ours.setLevel(logging.DEBUG)
        if kind == "filter":
            task_started.connect(raises)
    elif kind == "receiver":
        for signal in (task_started, task_finished):
            signal.connect(raises)
    else:
        watcher: Any = type("Watcher", (), dict.fromkeys(("started", "stopped", "ended"), raises))
        monkeypatch.setattr(watchers, "_watchers", [watcher()])
    try:
        yield
    finally:
        root.removeHandler(handler)
        ours.setLevel(level)
        for signal in (task_started, task_finished):
            signal.disconnect(raises)


def test_every_logger_of_ours_bears_a_handler_that_raises():
    sources = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert set(OURS) == set(re.findall(r'getLogger\("(django_jobs[\w.]*)"\)', sources))
    assert all(getattr(logging.getLogger(name).handle, "is_sturdy", False) for name in OURS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["handler", "filter", "receiver", "metric"])
def test_an_observer_that_raises_touches_no_job(monkeypatch: pytest.MonkeyPatch, kind: str):
    with observed(kind, monkeypatch), running_worker(max_in_flight=2) as worker:
        results = [speak.enqueue(), speak.enqueue(fails=True), afail_with.enqueue(password="x")]
        ends = wait_for_ends(*results)
        wait_for(lambda: worker.in_flight == 0)
    assert ["succeeded", "dead", "dead"] == ends
    assert "jobs-loop" not in [each.name for each in live_threads()]
