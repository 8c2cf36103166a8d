"""Rows that a hand, or another version, wrote are shown as they are; no page fails of them."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client

from django_jobs.models import Job, Placement, Queue, Skip, Worker
from tests.admin.pages import JOBS, LISTS, QUEUES, SKIPS, WORKERS, page_of, page_of_queue, shown

pytestmark = pytest.mark.django_db


def job(**columns: Any) -> int:
    return Job.objects.create(task="tests.tasks.ok", queue="mail", **columns).pk


def serve(**columns: Any) -> Worker:
    return Worker.objects.create(
        id=uuid4(), backend="default", name="web-1", pid=7, version="1", capacity=6,
        default_slots=8, **columns,
    )  # fmt: skip


def write(table: str, column: str, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE django_jobs_{table} SET {column} = %s", [value])


@pytest.mark.parametrize(
    ("value", "said"),
    [("infinity", "due in"), ("-infinity", "was due"), ("20000-01-01", "due in")],
)
def test_a_time_that_python_cannot_hold_fails_no_page(
    viewer: Client, value: str, said: str
) -> None:
    pk = job(state="scheduled", run_after="2999-01-01T00:00Z")
    write("job", "run_after", value)
    for page in (JOBS, f"{JOBS}?q={pk}", f"{JOBS}?state=scheduled", page_of(pk)):
        assert said in shown(viewer, page)
    Job.objects.update(state="ready")
    for page in (JOBS, page_of(pk)):
        shown(viewer, page)
    assert "run_after" not in str(Job.objects.defer("run_after").get().__dict__)


def test_a_time_that_python_can_hold_is_shown_as_it_is(viewer: Client) -> None:
    page = page_of(job(state="scheduled", run_after="2999-01-01T00:00Z"))
    assert 'datetime="2999-01-01T00:00:00+00:00"' in shown(viewer, page)
    assert "Due" not in shown(viewer, page_of(job()))


@pytest.mark.parametrize("value", ["[]", "null", '{"cpus": "many"}', '{"cpus": -1}'])
def test_resources_of_a_worker_that_are_no_amounts_fail_no_page(
    viewer: Client, value: str
) -> None:
    amounts: Any = {"cpus": 1}
    pk = job(placement=Placement.objects.create(digest="0", resources=amounts).pk)
    host = serve()
    write("worker", "resources", value)
    write("worker", "slots", value)
    for page in (*LISTS, page_of(pk), page_of_queue("mail"), f"{WORKERS}{host.pk}/change/"):
        shown(viewer, page)
    write("placement", "resources", value)
    for page in (page_of(pk), SKIPS):
        shown(viewer, page)


def test_names_that_are_null_fail_no_page(viewer: Client) -> None:
    host = serve()
    for column in ("queues", "labels", "aliases"):
        write("worker", column, "{NULL,a}")
    for page in (WORKERS, page_of(job()), page_of_queue("a"), f"{WORKERS}{host.pk}/change/"):
        shown(viewer, page)


def test_of_ten_thousand_labels_a_few_are_named(viewer: Client) -> None:
    labels = [f"label-{number:05}" for number in range(10_000)]
    host = serve(labels=labels, queues=labels, aliases=labels)
    for page in (WORKERS, f"{WORKERS}{host.pk}/change/"):
        text = shown(viewer, page)
        assert "label-00049 and 9,950 more" in text or "label-00049 and 9950 more" in text
        assert "label-00050" not in text


def test_a_reason_that_another_version_wrote_is_shown(viewer: Client) -> None:
    asked = Placement.objects.create(digest="0", labels=["gpu"])
    Skip.objects.create(host="away", placement=asked.pk, reason="phase_of_the_moon")
    for page in (SKIPS, page_of(job(placement=asked.pk))):
        assert "phase_of_the_moon" in shown(viewer, page)


def test_an_unserved_queue_of_no_jobs_is_not_called_well(viewer: Client) -> None:
    page = shown(viewer, page_of_queue("mail"))
    sentence = re.search(r'<p class="jobs-sentence">(.*?)</p>', page)
    assert sentence is not None
    assert "ok" not in re.sub(r"<[^>]*>", "", sentence[1]).split()


@pytest.mark.parametrize("name", ["a/b", "a\nb", "it's", "x; rm -rf ~", "<b>", "ä" * 400])
def test_a_queue_of_any_name_has_a_page_and_can_be_resumed(operator: Client, name: str) -> None:
    Queue.objects.create(name=name, paused=True)
    assert "is paused" in shown(operator, page_of_queue(name))
    fields = {"backend": "default", "queue": name}
    assert 302 == operator.post(f"{QUEUES}resume/", fields).status_code
