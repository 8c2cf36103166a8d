"""Pausing and resuming: who, why, since when, until when, and what the pages say of it."""

from __future__ import annotations

from datetime import timedelta
from html import escape
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import override_settings

from django_jobs.models import Activity, Job, Queue
from django_jobs.operations.pause import pause
from tests.admin.pages import QUEUES, goal, page_of, page_of_queue, shown, told
from tests.operations.ended import ANA, live

pytestmark = pytest.mark.django_db

PAUSE, RESUME = f"{QUEUES}pause/", f"{QUEUES}resume/"
MAIL = {"backend": "default", "queue": "mail"}
ASKED = {**MAIL, "asked": "1"}


def paused(**more: Any) -> None:
    pause("mail", backend="default", actor=ANA, reason="bad feed", database="default", **more)


def test_pause_asks_for_a_reason_before_it_does_anything(operator: Client) -> None:
    live("ready")
    Job.objects.update(queue="mail")
    response = operator.post(PAUSE, MAIL)
    page = response.content.decode()
    assert 200 == response.status_code
    assert "1 ready, 0 running" in page
    assert "Jobs that run go on" in page
    assert "errorlist" not in page
    assert not Queue.objects.exists()
    for reason in ({}, {"reason": ""}, {"reason": "  "}):
        page = operator.post(PAUSE, {**ASKED, **reason}).content.decode()
        assert "This field is required." in page
    assert not Queue.objects.exists()
    assert not Activity.objects.exists()


def test_a_pause_keeps_who_and_why(operator: Client) -> None:
    response = operator.post(PAUSE, {**ASKED, "reason": "bad feed"})
    assert page_of_queue("mail") == goal(response)
    assert ["The queue mail is paused; the jobs that run go on."] == told(operator, response)
    row = Queue.objects.get()
    assert ("default", "mail", True, "staff0", "bad feed", None) == (
        row.backend, row.name, row.paused, row.paused_by, row.paused_reason, row.paused_until,
    )  # fmt: skip
    act = Activity.objects.get()
    assert ("pause", "staff0", "admin", "bad feed") == (
        act.verb, act.actor_name, act.via, act.reason,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "said", "stored"),
    [
        ("UTC", "2999-01-02T03:04", "2999-01-02T03:04:00+00:00"),
        ("UTC", "2999-01-02 03:04:05", "2999-01-02T03:04:05+00:00"),
        ("Asia/Tokyo", "2999-01-02T03:04", "2999-01-01T18:04:00+00:00"),
    ],
)
def test_an_end_is_of_the_time_zone_that_the_page_names(
    operator: Client, zone: str, said: str, stored: str
) -> None:
    with override_settings(TIME_ZONE=zone):
        assert f"Time zone: {zone}." in operator.post(PAUSE, MAIL).content.decode()
        goal(operator.post(PAUSE, {**ASKED, "reason": "x", "until": said}))
    until = Queue.objects.get().paused_until
    assert until is not None
    assert stored == until.isoformat()


@pytest.mark.parametrize(
    "until", ["2020-01-01T00:00", "soon", "2999-13-01T00:00", "0001-01-01T00:00", "9" * 500]
)
def test_an_end_that_is_none_is_an_error_of_the_form(operator: Client, until: str) -> None:
    response = operator.post(PAUSE, {**ASKED, "reason": "bad feed", "until": until})
    page = response.content.decode()
    assert 200 == response.status_code
    assert "errorlist" in page
    assert 'value="bad feed"' in page
    assert not Queue.objects.exists()


def test_a_refusal_is_a_sentence_of_the_form(operator: Client) -> None:
    data = {**ASKED, "queue": "nobody has this", "reason": "x"}
    page = operator.post(PAUSE, data).content.decode()
    assert "names no queue" in page
    response = operator.post(RESUME, {**MAIL, "queue": "nobody has this"})
    assert "names no queue" in told(operator, response)[0]
    assert not Queue.objects.exists()


def test_a_resume_asks_nothing(operator: Client) -> None:
    paused()
    response = operator.post(RESUME, MAIL)
    assert page_of_queue("mail") == goal(response)
    assert ["The queue mail is resumed."] == told(operator, response)
    assert not Queue.objects.get().paused
    response = operator.post(RESUME, MAIL)
    assert ["The queue mail was not paused."] == told(operator, response)
    assert ["resume", "pause"] == list(
        Activity.objects.order_by("-pk").values_list("verb", flat=True)
    )


def test_the_button_of_a_job_leads_back_to_it(operator: Client) -> None:
    paused()
    pk = live("ready")
    Job.objects.update(queue="mail")
    page = shown(operator, page_of(pk))
    assert f'action="{RESUME}"' in page
    assert f'<input type="hidden" name="job" value="{pk}">' in page
    response = operator.post(RESUME, {**MAIL, "job": str(pk)})
    assert page_of(pk) == goal(response)
    assert RESUME not in shown(operator, page_of(pk))


@pytest.mark.parametrize(
    "job", ["//evil.example", "https://evil.example", "1/../..", "", "\u0661"]
)
def test_a_resume_leads_nowhere_else(operator: Client, job: str) -> None:
    assert page_of_queue("mail") == goal(operator.post(RESUME, {**MAIL, "job": job}))


@pytest.mark.parametrize("address", [PAUSE, RESUME])
@pytest.mark.parametrize(
    "data", [{}, {"backend": "default"}, {**MAIL, "queue": ""}, {**MAIL, "queue": "a\0b"},
             {**MAIL, "backend": "x" * 501}],
)  # fmt: skip
def test_what_names_no_queue_is_told(operator: Client, address: str, data: Any) -> None:
    response = operator.post(address, data)
    assert QUEUES == goal(response)
    assert ["That names no queue."] == told(operator, response)


def test_the_list_and_the_page_say_by_whom_why_since_and_until(viewer: Client) -> None:
    paused()
    Queue.objects.update(paused_at=Now() - timedelta(seconds=200))
    for address in (QUEUES, page_of_queue("mail")):
        page = shown(viewer, address)
        assert "aused by ana (“bad feed”)" in page
        assert "3 m 20 s ago" in page
        assert "it ends when somebody resumes it" in page
        assert "Jobs that run go on." in page
    Queue.objects.update(paused_until=Now() + timedelta(seconds=4000))
    for address in (QUEUES, page_of_queue("mail")):
        assert "it ends <time" in shown(viewer, address)
        assert "in 1 h 06 m" in shown(viewer, address)


def test_a_pause_that_has_ended_is_not_shown(viewer: Client) -> None:
    paused()
    Queue.objects.update(paused_until=Now() - timedelta(seconds=1))
    for address in (QUEUES, page_of_queue("mail")):
        page = shown(viewer, address)
        assert "Paused by" not in page
        assert "jobs-paused" not in page


def test_a_pause_of_an_older_version_says_somebody(viewer: Client) -> None:
    Queue.objects.create(name="mail", paused=True)
    assert "Paused by somebody; it ends when somebody resumes it." in shown(viewer, QUEUES)
    with connection.cursor() as cursor:  # as by hand
        cursor.execute("UPDATE django_jobs_queue SET paused_until = 'infinity'")
    assert "Paused by somebody; it ends when somebody resumes it." in shown(viewer, QUEUES)
    shown(viewer, page_of_queue("mail"))


def test_the_button_is_the_one_that_fits(operator: Client) -> None:
    page = shown(operator, page_of_queue("mail"))
    assert (True, False) == (PAUSE in page, RESUME in page)
    paused()
    page = shown(operator, page_of_queue("mail"))
    assert (False, True) == (PAUSE in page, RESUME in page)


def test_cancel_leads_back_to_the_page(operator: Client) -> None:
    page = operator.post(PAUSE, MAIL).content.decode()
    assert f'href="{escape(page_of_queue("mail"))}"' in page


def test_a_resume_of_what_is_not_paused_is_no_success(operator: Client) -> None:
    paused()
    levels = []
    for _ in range(2):  # the button is pressed twice
        response = operator.post(RESUME, MAIL)
        page = operator.get(goal(response))
        levels += [message.level_tag for message in page.context["messages"]]
    assert ["success", "warning"] == levels
