"""A running job's progress and its timeout, at a desk, on a phone, in the dark."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.urls import reverse
from playwright.sync_api import expect

from django_jobs.models import Event, Job, Lease, Worker
from tests.browser.tab import Tab
from tests.operations.ended import live

SAID = {"done": 61_200, "total": 88_140, "message": "copying the pictures of the spring catalogue"}


@pytest.fixture
def run(transactional_db: None) -> int:
    """The id of a job whose run is over its timeout and says how far it is."""
    worker = Worker.objects.create(
        id=uuid4(), backend="default", name="web-1", pid=42, version="1", capacity=6
    ).pk
    late, *others = (live("running") for _ in range(3))
    Job.objects.update(last_attempted_at=Now(), started_at=Now(), timeout=30)
    for job, columns in (
        (late, {"timed_out_at": "2026-01-01T00:00Z", "progress": SAID}),
        (others[0], {"progress": {**SAID, "total": None}}),
        (others[1], {"progress": {**SAID, "message": ""}}),
    ):
        Lease.objects.create(job_id=job, worker=worker, expires_at="2999-01-01T00:00Z", **columns)
    event: Any = {"data": {"timeout": 30}}
    Event.objects.create(job_id=late, kind="timed_out", attempt=1, life=1, worker=worker, **event)
    return late


def test_a_job_over_its_timeout_says_so_and_how_far_it_is(desk: Tab, run: int):
    desk.open(reverse("admin:django_jobs_job_change", args=[run]))
    expect(desk.page.get_by_role("progressbar", name="Progress")).to_be_visible()
    warning = desk.content.get_by_text(re.compile("Over its timeout"))
    desk.check_looks(
        warning,
        desk.content.locator(".jobs-progress"),
        desk.content.locator(".jobs-line strong").last,
    )


def test_the_list_of_jobs_shows_how_far_each_is(desk: Tab, run: int):
    desk.open(reverse("admin:django_jobs_job_changelist"))
    expect(desk.page.get_by_role("progressbar", name="Progress")).to_have_count(2)
    desk.check_looks(
        desk.page.get_by_text("over its timeout"), desk.page.locator(".jobs-progress").first
    )


def test_the_workers_show_whose_runs_are_over_their_timeout(desk: Tab, run: int):
    desk.open(reverse("admin:django_jobs_worker_changelist"))
    desk.check_looks(desk.page.get_by_text("1 over its timeout"))
    desk.page.get_by_role("link", name="web-1:42").click()
    desk.check_looks(desk.page.get_by_text("1 over its timeout"))
