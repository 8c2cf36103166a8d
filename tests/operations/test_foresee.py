"""An enqueue warns once of what no live worker could ever take, and never fails by it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import InterfaceError

from django_jobs import Requires, backend
from django_jobs.models import Job
from django_jobs.operations import foresee
from tests.tasks import ok
from tests.worlds import register

pytestmark = pytest.mark.django_db(transaction=True)

gpu = ok.using(requires=Requires(labels={"gpu"}))
GPU = "No live worker of the queue 'default' fits a job that needs gpu"
LOGGER = "django_jobs.enqueue"


@pytest.fixture(autouse=True)
def nothing_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has enqueued nothing yet, beside one plain worker."""
    monkeypatch.setattr(backend, "_FORESEEN", set())
    register(default_slots=4)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def test_a_queue_and_a_placement_are_asked_about_once_a_process(
    caplog: pytest.LogCaptureFixture, django_assert_num_queries: Any
):
    with django_assert_num_queries(2):
        gpu.enqueue(1)
    with django_assert_num_queries(1):
        gpu.enqueue(2)
    with django_assert_num_queries(1):
        ok.enqueue_many([gpu.s(3)])
    [line] = told(caplog)
    assert line.startswith(GPU)


def test_many_at_once_are_one_statement_and_one_question(
    caplog: pytest.LogCaptureFixture, django_assert_num_queries: Any
):
    """However many placements they have."""
    hosts = [ok.using(requires=Requires(host=f"h{number}")) for number in range(30)]
    with django_assert_num_queries(2):
        ok.enqueue_many([*(each.s(1) for each in hosts), ok.s(2), gpu.s(3)])
    assert 31 == len(told(caplog))
    with django_assert_num_queries(1):
        ok.enqueue_many([*(each.s(1) for each in hosts), ok.s(2), gpu.s(3)])


def test_a_job_that_somebody_could_take_is_not_warned_of(caplog: pytest.LogCaptureFixture):
    register(default_slots=4, labels=["gpu"])
    gpu.enqueue(1)
    assert [] == told(caplog)


def test_in_a_transaction_it_is_asked_after_the_commit(
    caplog: pytest.LogCaptureFixture, django_assert_num_queries: Any
):
    with transaction.atomic():
        with django_assert_num_queries(1):
            gpu.enqueue(1)
        assert [] == told(caplog)
    assert 1 == len(told(caplog))


@pytest.fixture
def manual() -> Iterator[None]:
    """A connection whose transactions the caller begins and ends."""
    connection.set_autocommit(False)
    yield
    connection.rollback()
    connection.set_autocommit(True)


@pytest.mark.usefixtures("manual")
def test_a_caller_who_commits_by_hand_is_not_asked(django_assert_num_queries: Any):
    """A question that fails would take his transaction with it."""
    with django_assert_num_queries(1):
        gpu.enqueue(1)


@pytest.mark.parametrize("error", [InterfaceError("closed"), ValueError("what a hand wrote")])
@pytest.mark.parametrize("atomic", [True, False])
def test_a_question_that_fails_fails_no_enqueue(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, atomic: bool, error: Any
):
    def fail(*_args: Any, **_known: Any) -> None:
        raise error

    monkeypatch.setattr(foresee, "reporting", fail)
    caplog.set_level(logging.DEBUG)
    if atomic:
        with transaction.atomic():
            made = gpu.enqueue(1)
    else:
        made = gpu.enqueue(1)
    assert "ready" == Job.objects.get(pk=made.id).state
    assert str(error) in caplog.text
