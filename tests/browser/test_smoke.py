"""The least: one can log in and read a job's page, at a desk, on a phone, in the dark."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.browser.tab import Tab
from tests.tasks import ok


@pytest.mark.usefixtures("admin")
def test_a_superuser_logs_in_by_the_form(tab: Tab):
    tab.open(reverse("admin:index"))
    tab.page.get_by_label("Username").fill("ana")
    tab.page.get_by_label("Password").fill("secret")
    tab.page.keyboard.press("Enter")
    tab.page.locator("#content-main").get_by_role("link", name="Dead letters").click()
    tab.page.wait_for_url(f"**{reverse('admin:django_jobs_deadletter_changelist')}")


def test_a_jobs_page_tells_its_state_and_fits_every_screen(desk: Tab):
    job = ok.enqueue("a value " * 40)
    desk.open(reverse("admin:django_jobs_job_change", args=[job.id]))
    verdict = desk.content.locator("p").first
    assert "ready" in verdict.inner_text().lower()
    desk.check_looks(verdict, desk.content.locator("pre").first)


def test_a_fault_in_the_console_is_noticed(tab: Tab):
    tab.open(reverse("admin:login"))
    tab.page.evaluate("console.error('no such thing')")
    with pytest.raises(AssertionError, match="no such thing"):
        tab.check_faults()
    tab.faults.clear()


def test_a_page_that_scrolls_sideways_is_noticed(tab: Tab):
    tab.open(reverse("admin:login"))
    tab.page.evaluate(
        "document.body.append(Object.assign(document.createElement('div'),"
        " {style: 'width: 500px; height: 1px'}))"
    )
    with pytest.raises(AssertionError, match="scrolls sideways at 400"):
        tab.check_looks()
