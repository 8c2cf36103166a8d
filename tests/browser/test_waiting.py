"""Why is my job not running? The page says it, and what it offers makes the job run."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from django_jobs import Requires
from django_jobs.models import Job, Lease, Worker
from django_jobs.operations.act import Actor
from django_jobs.operations.pause import pause
from tests.browser.reasons import pattern
from tests.browser.tab import Tab
from tests.processes import wait_for
from tests.tasks import nap, ok
from tests.worlds import register


class JobPage:
    """The page of one job in a tab."""

    def __init__(self, desk: Tab, job: Any) -> None:
        self.desk = desk
        self.job = int(job.id)
        self.verdict = desk.content.locator(".jobs-verdict")
        self.sentence = self.verdict.locator(".jobs-sentence strong")
        self.command = self.verdict.locator("code")
        self.open()

    def open(self) -> None:
        """Read it anew."""
        self.desk.open(reverse("admin:django_jobs_job_change", args=[self.job]))

    def says(self, situation: str, **facts: str) -> None:
        """Demand the sentence of that situation, the first of the page, fit to be read."""
        expect(self.sentence).to_have_text(pattern(situation, **facts))
        assert self.sentence.inner_text() in self.desk.content.locator("p").first.inner_text()
        buttons = self.verdict.get_by_role("button").all()
        self.desk.check_looks(self.sentence, *self.command.all(), *buttons)

    def press(self, name: str) -> None:
        """Press the button, which leads back to this page."""
        self.verdict.get_by_role("button", name=name).click()
        self.desk.page.wait_for_url(
            f"**{reverse('admin:django_jobs_job_change', args=[self.job])}"
        )

    def shown(self) -> list[str]:
        """Return the arguments of the command that is shown."""
        words = shlex.split(self.command.inner_text())
        assert ["python", "manage.py", "jobworker"] == words[:3]
        return words[3:]

    def runs(self) -> None:
        """See the job succeed, in its row and on the page."""
        wait_for(lambda: self.state == "succeeded", what=f"The job is {self.state}.")
        self.open()
        expect(self.sentence).to_have_text(pattern("succeeded"))

    @property
    def state(self) -> str:
        """The state in the job's row."""
        return Job.objects.values_list("state", flat=True).get(pk=self.job)


@pytest.fixture
def serving(worker):
    """Start a worker and return once it has registered."""

    def start(*flags: str):
        process = worker(*flags)
        registered = Worker.objects.filter(pid=process.pid)
        wait_for(registered.exists, what=f"No worker has registered:\n{process.log()}")

    return start


def test_a_job_of_a_queue_that_nobody_serves(desk: Tab, serving):
    serving("--queue", "a")
    page = JobPage(desk, ok.using(queue_name="b").enqueue())
    page.says("queue_not_served", queue="b")
    serving(*page.shown())
    page.runs()


def test_a_job_behind_a_pause(desk: Tab, serving):
    serving("--queue", "a")
    actor = Actor(name="ben", via="cli")
    pause("a", backend="default", actor=actor, reason="a bad feed", database="default")
    page = JobPage(desk, ok.using(queue_name="a").enqueue())
    page.says("queue_paused", queue="a")
    assert {"ben", "bad", "feed"} <= set(re.findall(r"\w+", page.sentence.inner_text()))
    page.press("Resume the queue")
    page.runs()


def test_a_job_that_needs_a_label_which_nobody_has(desk: Tab, serving):
    serving("--queue", "a")
    page = JobPage(desk, ok.using(queue_name="a", requires=Requires(labels={"gpu"})).enqueue())
    page.says("no_worker_fits", needs="gpu")
    assert "--label" in page.shown()
    serving(*page.shown())
    page.runs()


def test_a_job_whose_time_is_to_come(desk: Tab, serving):
    serving("--queue", "a")
    page = JobPage(desk, ok.using(queue_name="a", run_after=timedelta(hours=1)).enqueue())
    page.says("scheduled")
    page.press("Run now")
    page.runs()


def test_a_job_whose_hosts_are_all_at_capacity(desk: Tab, serving):
    serving("--queue", "a", "--max-in-flight", "1")
    nap.using(queue_name="a").enqueue(60)
    wait_for(Lease.objects.exists, what="Nobody took the long job.")
    page = JobPage(desk, ok.using(queue_name="a").enqueue())
    page.says("at_capacity", queue="a")
    serving(*page.shown())
    page.runs()


def test_long_names_cut_no_caption(desk: Tab):
    register(name="x" * 100, queues=["q" * 100], labels=["l" * 100])
    page = JobPage(desk, ok.using(queue_name="a").enqueue())
    page.says("queue_not_served", queue="a")
    desk.open(reverse("admin:django_jobs_queue_changelist"))
    desk.check_looks()
