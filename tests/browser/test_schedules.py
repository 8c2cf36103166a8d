"""The schedules: one is disabled, enabled and run from its page, without a script."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from django_jobs.models import Job, Schedule, Worker
from django_jobs.operations.act import Actor
from django_jobs.operations.schedules import disable_schedule
from tests.browser.tab import Tab
from tests.operations.timetables import put_cron, set_row, timetables

LIST = "admin:django_jobs_schedule_changelist"
NIGHTLY = {"schedule": "0 3 * * *", "timezone": "Europe/Rome"}


@pytest.fixture
def nightly(settings: Any, admin: Any) -> Schedule:
    """An entry that a worker has written down before it stopped."""
    put_cron(settings, nightly=NIGHTLY)
    with timetables({"nightly": NIGHTLY}) as [worker]:
        worker.put()
    Worker.objects.all().delete()
    return Schedule.objects.get()


def every_kind(settings: Any) -> None:
    """A list with a row of every state, long names, and a history."""
    said: dict[str, dict[str, Any]] = {
        "nightly": NIGHTLY,
        "mail": {"catch_up": "all", "task": "tests.tasks.boom"},
        "reports": {"schedule": "*/5 8-18 * * mon-fri", "timezone": "Australia/Lord_Howe"},
        "statistics-of-the-previous-month-and-of-the-year-before": {"schedule": "15 6 1 * *"},
        "old": {"enabled": False},
    }
    put_cron(settings, **said)
    with timetables({**said, "gone": {}}) as [worker]:
        worker.put()
    now = timezone.now()
    [job] = Job.objects.bulk_create(
        [Job(task="tests.tasks.ok", schedule="nightly", state="dead", finished_at=now,
             scheduled_for=datetime(2026, 11, 30, 2, 0, tzinfo=UTC), attempt=3,
             last_attempted_at=now)]
    )  # fmt: skip
    [live] = Job.objects.bulk_create([Job(task="tests.tasks.ok", schedule="mail")])
    set_row(last_job=job.pk, last_at=now - timedelta(minutes=3), fired_at=now, name="nightly")
    set_row("mail", next_at=now - timedelta(minutes=7), last_job=live.pk, missed_why="overlap",
            missed_at=now - timedelta(minutes=9))  # fmt: skip
    set_row("gone", gone_at=now, digest="of another version")
    actor = Actor(name="ben", via="cli")
    disable_schedule("reports", actor=actor, reason="the printer is on fire", backend="default",
                     database="default")  # fmt: skip


def test_a_schedule_is_disabled_enabled_and_run(desk: Tab, nightly: Schedule) -> None:
    page = desk.page
    desk.open(reverse(LIST))
    warning = desk.content.locator(".jobs-warnings li").first
    expect(warning).to_contain_text("No worker fires the schedules of default")
    expect(warning.locator("code")).to_have_text("python manage.py jobworker")
    desk.content.get_by_role("link", name="nightly").click()
    page.get_by_role("button", name="Disable…").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("is not made up for")).to_be_visible()
    desk.check_looks(page.get_by_label("Reason"), page.locator(".closelink"))
    page.get_by_label("Reason").fill("the mail is down")
    page.keyboard.press("Enter")
    state = desk.content.locator(".jobs-sentence")
    expect(state).to_contain_text("disabled")
    expect(state).to_contain_text("by ana")
    expect(state).to_contain_text("the mail is down")
    assert Schedule.objects.get().disabled_at is not None
    page.get_by_role("button", name="Enable").click()
    expect(state).to_have_text(re.compile("enabled"))
    expect(page.locator(".messagelist")).to_contain_text(re.compile(r"next run .* 03:00 CES?T"))
    page.get_by_role("button", name="Run now").click()
    job = Job.objects.get()
    table = desk.content.locator(".jobs-table-of-made")
    expect(table.get_by_role("link", name=str(job.pk))).to_be_visible()
    expect(table).to_contain_text("run by an operator")
    desk.check_looks(state, table.locator("caption"), *page.get_by_role("button").all()[-2:])
    table.get_by_role("link", name=str(job.pk)).click()
    expect(desk.content).to_contain_text("nightly, run by an operator")


def test_the_list_and_a_page_of_each_kind_fit_every_screen(desk: Tab, settings: Any) -> None:
    every_kind(settings)
    desk.open(reverse(LIST))
    desk.check_looks(*desk.page.locator("#result_list .jobs-badge").all(),
                     *desk.page.locator("#result_list .quiet").all()[:6],
                     *desk.page.locator(".jobs-warnings span").all())  # fmt: skip
    name = desk.name
    for each in Schedule.objects.all():
        desk.name = f"{name}-{each.name:.8}"
        desk.open(reverse("admin:django_jobs_schedule_change", args=[each.pk]))
        desk.check_looks(*desk.content.locator(".jobs-badge").all())
    desk.name = f"{name}-jobs"
    desk.open(reverse("admin:django_jobs_job_changelist"))
    desk.check_looks()
