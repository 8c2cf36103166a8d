"""What a task may ask of its context, and what it may say to it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import fields
from math import inf, nan
from typing import Any

import pytest

from django_jobs import JobContext, task
from django_jobs.models import Lease
from django_jobs.tasks.context import Said
from django_jobs.testing import run_jobs
from tests.worker.embedded import row

seen: list[Any] = []


@task(takes_context=True, max_attempts=3, queue_name="mail", priority=7, metadata={"by": "ana"})
def tell_all(context: JobContext, *, fail: int = 0) -> None:
    seen.append((context, list(Lease.objects.values_list("progress", flat=True))))
    context.progress(1, 2, "half")
    if context.attempt <= fail:
        raise OSError("again")


@pytest.fixture(autouse=True)
def _clean() -> None:
    seen.clear()


@pytest.fixture
def said() -> tuple[JobContext, list[Said]]:
    """A context without a worker, and what it was told."""
    told: list[Said] = []
    given: dict[str, Any] = {field.name: bool for field in fields(JobContext)}
    return JobContext(**{**given, "said": told.append}), told


@pytest.mark.django_db
def test_the_context_knows_its_job_without_a_statement(django_assert_num_queries: Any):
    result = tell_all.enqueue()
    run_jobs()
    [(context, _)] = seen
    job = row(result)
    with django_assert_num_queries(0):
        told = context.job
        assert (result.id, tell_all.module_path) == (told.id, told.task)
        assert ("mail", 7, 1, 3) == (told.queue, told.priority, told.attempt, told.max_attempts)
        assert ({"by": "ana"}, job.enqueued_at) == (told.metadata, told.enqueued_at)
        assert job.worker_ids == [told.worker]


@pytest.mark.django_db
def test_the_attempt_of_the_context_is_that_of_the_job():
    tell_all.enqueue(fail=2)
    run_jobs()
    assert [1, 2, 3] == [context.attempt for context, _ in seen]
    assert [1, 2, 3] == [context.job.attempt for context, _ in seen]


@pytest.mark.django_db
def test_run_jobs_takes_progress_and_writes_it_nowhere():
    tell_all.enqueue(fail=1)
    assert 2 == run_jobs().attempts
    assert [[None], [None]] == [progress for _, progress in seen]


class Level(enum.IntEnum):
    LOW = 3


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((40, 100, "forty"), (40, 100, "forty")),
        ((0,), (0, None, "")),
        ((0.5, 1.0), (0.5, 1.0, "")),
        ((120, 100), (120, 100, "")),  # the total was guessed too low
        ((Level.LOW, 5), (3, 5, "")),
        ((1, 2, "x" * 201), (1, 2, "x" * 200)),
        ((1, 2, "\0\ud800"), (1, 2, "\0\ud800")),
    ],
)
def test_progress_keeps_what_it_is_told(
    said: tuple[JobContext, list[Said]], given: Any, kept: Said
):
    context, told = said
    context.progress(*given)
    assert [kept] == told


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (("1",), TypeError, "done='1' must be an int or a float"),
        ((None,), TypeError, "done=None must be"),
        ((True,), TypeError, "done=True must be"),
        ((1, "2"), TypeError, "total='2' must be"),
        ((1, False), TypeError, "total=False must be"),
        ((1, 2, None), TypeError, "message=None must be text"),
        ((1, 2, b"half"), TypeError, "message=b'half' must be text"),
        ((-1,), ValueError, "done=-1 must not be below 0"),
        ((nan,), ValueError, "done must be finite"),
        ((inf, 2), ValueError, "done must be finite"),
        ((10**400,), ValueError, "done must be finite, and within"),
        ((1, nan), ValueError, "total must be finite"),
        ((1, 0), ValueError, "total=0 must be above 0; None: unknown"),
        ((0, -1), ValueError, "total=-1 must be above 0"),
    ],
)
def test_progress_refuses_what_cannot_be_shown(
    said: tuple[JobContext, list[Said]], given: Any, error: type[Exception], words: str
):
    context, told = said
    refused: Callable[..., None] = context.progress
    with pytest.raises(error) as raised:
        refused(*given)
    assert words in str(raised.value)
    assert [] == told
