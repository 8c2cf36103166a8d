"""Whatever a task takes, returns or raises: its job ends, and the worker lives."""

from __future__ import annotations

import logging
import re
import threading
from typing import Any

import pytest
from django.db import connection

from django_jobs.exceptions import InvalidPayload
from django_jobs.models import Event, Job, Placement, Skip
from django_jobs.testing import running_worker
from tests import tasks
from tests.tasks import NASTY, ODD_VALUES, ok
from tests.test_testing import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def ended(results: list[Any]) -> list[Job]:
    """Let a real worker run these jobs; return their rows, with it still alive."""
    ids = [int(result.id) for result in results]
    with running_worker(max_in_flight=4, poll_ceiling_seconds=0.1) as worker:
        wait_for(lambda: Job.objects.live().filter(pk__in=ids).count() == 0, seconds=30)
        after = ok.enqueue("alive")
        wait_for(lambda: Job.objects.get(pk=after.id).state == "succeeded")
        assert worker.loop.tally.lost == 0
        names = {thread.name for thread in threading.enumerate()}
        assert {"jobs-loop", "jobs-renewer", "jobs-sweeper", "jobs-listener"} <= names
    found = Job.objects.in_bulk(ids)
    return [found[pk] for pk in ids]


def test_odd_values_come_through_exactly_as_arguments_and_as_results() -> None:
    given: list[Any] = [ok.enqueue(value) for value in ODD_VALUES.values()]
    returned: list[Any] = [tasks.return_odd.enqueue(name) for name in ODD_VALUES]
    ended([*given, *returned])
    for result, value in zip([*given, *returned], [*ODD_VALUES.values()] * 2, strict=True):
        result.refresh()
        assert repr(result.return_value) == repr(value)
        assert result.attempts == 1


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("object", r"result: Unsayable is not JSON"),
        ("generator", r"result: generator is not JSON"),
        ("infinity", r"result\[1\]\.x: "),
        ("set", r"result: set is not JSON"),
        ("cycle", r"result\[0\]"),
        ("too large", r"result.*max_result_bytes"),
    ],
)
def test_a_result_that_json_cannot_say_ends_the_job_once(kind: str, says: str) -> None:
    result = tasks.return_unsayable.enqueue(kind)
    [job] = ended([result])
    assert (job.state, job.attempt) == ("dead", 1)
    event = Event.objects.get(job_id=job.pk)
    assert event.data["reason"] == "bad_result"
    result.refresh()
    assert result.status == "FAILED"
    [error] = result.errors
    assert re.search(says, error.traceback)


@pytest.mark.parametrize("task", [tasks.raise_nasty, tasks.araise_nasty], ids=["sync", "async"])
def test_nasty_exceptions_are_failed_attempts(task: Any) -> None:
    for job in ended([task.enqueue(kind) for kind in NASTY]):
        kind = job.args[0]
        assert job.state == "dead", kind
        event = Event.objects.get(job_id=job.pk)
        assert event.data["class"], kind
        assert 0 < len(event.data["traceback"]) < 40_000, kind
        assert len(job.error or "") <= 600, kind
        assert "\x00" not in (job.error or "\x00"), kind


def test_a_recursion_error_is_stored_cut_in_the_middle() -> None:
    [job] = ended([tasks.recurse.enqueue()])
    event = Event.objects.get(job_id=job.pk)
    assert event.data["class"] == "builtins.RecursionError"
    assert len(event.data["traceback"]) <= 33_000


PATHS = [
    "os.system",
    "subprocess.run",
    "no.such.module",
    "tests.tasks.missing",
    "tests.tasks.ODD_VALUES",
    "tests.tasks",
    "",
    "../../etc/passwd",
    "tests.tasks.ok; import os",
    "x" * 10_000,
    "tests.tasks.\x7f",
]


def test_what_is_no_task_is_never_called_and_burns_no_attempt() -> None:
    result = ok.enqueue("touch /tmp/django_jobs_was_here")
    Job.objects.filter(pk=result.id).delete()
    ids = []
    for path in PATHS:
        made = ok.enqueue("touch /tmp/django_jobs_was_here")
        Job.objects.filter(pk=made.id).update(task=path)
        ids.append(int(made.id))
    with running_worker(max_in_flight=4, poll_ceiling_seconds=0.1):
        wait_for(lambda: Event.objects.filter(kind="unknown_task").count() == len(PATHS))
        wait_for(lambda: Job.objects.filter(pk__in=ids, state="ready").count() == len(PATHS))
        wait_for(lambda: Skip.objects.filter(reason="unknown_task").count() == len(PATHS))
    for job in Job.objects.filter(pk__in=ids):
        assert (job.attempt, job.worker_ids, job.started_at) == (0, [], None)
        assert job.task == Placement.objects.get(pk=job.placement).task
        assert ok.get_backend().get_result(str(job.pk)).status == "READY"


def test_an_unknown_task_is_told_once_however_often_it_is_handed_back() -> None:
    made = ok.enqueue(1)
    Job.objects.filter(pk=made.id).update(task="newer.deploy.task")
    with running_worker(max_in_flight=1, poll_ceiling_seconds=0.1) as worker:
        for times in (1, 2, 3):
            wait_for(lambda times=times: worker.loop.tally.put_off == times)
            Job.objects.filter(pk=made.id, state="ready").update(placement=0)
    assert Event.objects.filter(job_id=made.id, kind="unknown_task").count() == 1


def test_a_secret_argument_is_in_no_log_and_no_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    [job] = ended([tasks.keep_secret.enqueue(password="S3CRET")])
    assert job.state == "dead"
    assert "S3CRET" not in caplog.text
    assert "the login failed" in caplog.text
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(string_agg(data, ''), '') FROM django_jobs_event")
        assert "S3CRET" not in cursor.fetchone()[0]
    assert "S3CRET" not in (job.error or "")


def test_a_payload_over_the_limit_is_refused_with_size_limit_and_setting() -> None:
    with pytest.raises(InvalidPayload, match=r"max_payload_bytes"):
        ok.enqueue("x" * (1024 * 1024 + 1))
    assert Job.objects.count() == 0


def test_a_changed_signature_fails_with_an_error_that_says_so() -> None:
    result = ok.enqueue(1)
    Job.objects.filter(pk=result.id).update(kwargs={"unknown": 2})  # an older caller's
    [job] = ended([result])
    assert job.state == "dead"
    assert "unexpected keyword argument 'unknown'" in str(job.error)


def test_a_task_leaves_no_language_or_time_zone_behind() -> None:
    first = tasks.change_language.enqueue("it", "Asia/Tokyo")
    second = tasks.tell_language.enqueue()
    ended([first, second])
    second.refresh()
    assert second.return_value == ["en", "UTC", "nothing"]
