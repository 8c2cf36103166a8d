"""To disable, enable and run a schedule: who may, what happens, and what is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from django_jobs.models import Activity, Job, Schedule
from tests.admin.pages import ACTIVITY, SCHEDULES, goal, shown, told
from tests.admin.test_schedules import NIGHTLY, page_of_schedule, schedule
from tests.operations.ended import live
from tests.operations.timetables import put_cron

pytestmark = pytest.mark.django_db

VERBS = ("disable", "enable", "run")
REASON = {"asked": "1", "reason": "the mail is down"}
NEXT = r"Its next run is in [\d hms.]+, \w{3} \d{4}-\d\d-\d\d 03:00 CES?T\."


@pytest.fixture(autouse=True)
def in_the_settings(settings: Any) -> None:
    put_cron(settings, nightly=NIGHTLY)


def on(row: Schedule, verb: str) -> str:
    """The address of a verb."""
    return f"{SCHEDULES}{row.pk}/{verb}/"


def everything() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Schedule, Activity, Job)]


def acts() -> list[tuple[Any, ...]]:
    fields = ("verb", "actor_name", "via", "scope", "count", "reason")
    return list(Activity.objects.order_by("pk").values_list(*fields))


def test_to_disable_one_asks_for_a_reason_first(operator: Client) -> None:
    row = schedule(next_at="2999-12-01T02:00Z")
    before = everything()
    page = operator.post(on(row, "disable")).content.decode()
    for text in ("nightly", "tests.tasks.ok", "2999-12-01 03:00 CET", "is not made up for"):
        assert text in page, text
    assert "errorlist" not in page
    for reason in ("", "   "):
        response = operator.post(on(row, "disable"), {"asked": "1", "reason": reason})
        assert "errorlist" in response.content.decode()
    assert before == everything()


def test_a_disabled_one_says_who_and_why(operator: Client) -> None:
    row = schedule()
    response = operator.post(on(row, "disable"), REASON)
    assert page_of_schedule(row) == goal(response)
    [text] = told(operator, response)
    assert "The schedule nightly is disabled: no worker fires it until" in text
    now = Schedule.objects.get()
    assert ("staff0", "the mail is down", None) == (
        now.disabled_by, now.disabled_reason, now.next_at,
    )  # fmt: skip
    assert now.disabled_at is not None
    scope = "schedule nightly of default"
    assert [("disable_schedule", "staff0", "admin", scope, 1, "the mail is down")] == acts()
    assert "1<span" not in shown(operator, ACTIVITY)


def test_an_enabled_one_says_when_it_runs_next(operator: Client) -> None:
    row = schedule(disabled_at=Now(), disabled_by="ben", disabled_reason="x", next_at=None)
    response = operator.post(on(row, "enable"))
    assert page_of_schedule(row) == goal(response)
    [message] = operator.get(goal(response)).context["messages"]
    text = str(message)
    assert re.fullmatch(rf"The schedule nightly is enabled\. {NEXT}", text), text
    assert "success" == message.level_tag
    assert (None, None) == (Schedule.objects.get().disabled_at, Schedule.objects.get().disabled_by)
    assert ("enable_schedule", "staff0") == acts()[0][:2]


def test_one_that_the_settings_switch_off_has_no_next_run_to_tell(operator: Client) -> None:
    row = schedule(disabled_at=Now(), enabled=False)
    response = operator.post(on(row, "enable"))
    assert ["The schedule nightly is enabled."] == told(operator, response)


def test_to_enable_one_that_is_enabled_says_so_and_writes_nothing(operator: Client) -> None:
    row = schedule()
    before = everything()
    response = operator.post(on(row, "enable"))
    [message] = operator.get(goal(response)).context["messages"]
    start = "The schedule nightly was not disabled. Its next run is in 2 h 05 m"
    assert str(message).startswith(start)
    assert "warning" == message.level_tag
    assert before == everything()


def test_to_run_one_now_makes_a_job_and_leaves_its_next_run(operator: Client) -> None:
    row = schedule()
    response = operator.post(on(row, "run"))
    job = Job.objects.get()
    assert ("nightly", None, "ready") == (job.schedule, job.scheduled_for, job.state)
    assert page_of_schedule(row) == goal(response)
    [text] = told(operator, response)
    start = f"Job {job.pk} is enqueued for the schedule nightly. Its next run is in 2 h 05 m"
    assert text.startswith(start), text
    now = Schedule.objects.get()
    assert (row.next_at, job.pk) == (now.next_at, now.last_job)
    assert [("run_schedule", "staff0", "admin", "schedule nightly of default", 1, "")] == acts()


def test_one_that_is_due_or_disabled_can_be_run_too(operator: Client) -> None:
    row = schedule()
    Schedule.objects.update(next_at=Now() - timedelta(minutes=1))
    [text] = told(operator, operator.post(on(row, "run")))
    assert "It is due now, for " in text
    Schedule.objects.update(disabled_at=Now())
    [text] = told(operator, operator.post(on(row, "run")))
    assert text.endswith("is enqueued for the schedule nightly.")
    assert 2 == Job.objects.count()


def test_what_the_operation_refuses_is_told(operator: Client, settings: Any) -> None:
    put_cron(settings, nightly={**NIGHTLY, "overlap": "skip"})
    row = schedule(last_job=live("ready"))
    elsewhere = schedule("elsewhere")
    before = everything()
    [text] = told(operator, operator.post(on(row, "run")))
    assert "The last job of the schedule nightly is still live" in text
    [text] = told(operator, operator.post(on(elsewhere, "run")))
    assert "has no schedule 'elsewhere'" in unescape(text)
    assert before == everything()


@pytest.mark.parametrize("verb", VERBS)
def test_one_that_has_gone_is_left_alone(operator: Client, verb: str) -> None:
    row = schedule(gone_at=Now(), disabled_at=Now())
    before = everything()
    for address in (SCHEDULES, page_of_schedule(row)):
        assert on(row, verb) not in shown(operator, address)
    response = operator.post(on(row, verb), REASON)
    assert page_of_schedule(row) == goal(response)
    text = "The schedule nightly is no longer in the settings of the workers; nothing was changed."
    assert [text] == told(operator, response)
    assert before == everything()


@pytest.mark.parametrize("verb", VERBS)
def test_one_that_is_not_there_leads_to_the_list(operator: Client, verb: str) -> None:
    for pk in (7, 10**30):
        response = operator.post(f"{SCHEDULES}{pk}/{verb}/", REASON)
        assert SCHEDULES == goal(response)
        assert ["There is no such schedule."] == told(operator, response)


def test_only_what_can_be_done_is_offered(operator: Client) -> None:
    offered = {
        schedule(): ["disable", "run"],
        schedule("b", disabled_at=Now()): ["enable"],  # not in these settings
        schedule("c", gone_at=Now()): [],
        schedule("d", enabled=False): ["disable"],
    }
    for row, verbs in offered.items():
        for page in (shown(operator, SCHEDULES), shown(operator, page_of_schedule(row))):
            assert verbs == [verb for verb in VERBS if on(row, verb) in page], row.name
    page = shown(operator, SCHEDULES)
    for row in offered:
        assert f'formaction="{on(row, "run")}"' in page or row.name != "nightly"
    assert '<span class="visually-hidden"> nightly</span>' in page


@pytest.mark.parametrize(
    ("permission", "allowed"),
    [("disable_schedule", ["disable", "enable"]), ("run_schedule", ["run"]), ("run_job", [])],
)
def test_each_verb_asks_for_its_own_permission(
    staff: Callable[..., Client], permission: str, allowed: list[str]
) -> None:
    rows = [schedule(), schedule("off", disabled_at=Now())]
    client, blind = staff("view_schedule", permission), staff(permission)
    pages = [shown(client, address) for address in (SCHEDULES, *map(page_of_schedule, rows))]
    before = everything()
    for verb in VERBS:
        is_offered = any(on(row, verb) in page for row in rows for page in pages)
        assert (verb in allowed) == is_offered, verb
        for row in rows:
            assert 403 == blind.post(on(row, verb), REASON).status_code
            if verb not in allowed:
                assert 403 == client.post(on(row, verb), REASON).status_code
    assert before == everything()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_a_post_with_a_token(
    operator: Client, staff: Callable[..., Client], client: Client, verb: str
) -> None:
    row = schedule(disabled_at=Now() if verb == "enable" else None)
    before = everything()
    for method in ("get", "head", "put", "delete", "options"):
        assert 405 == getattr(operator, method)(on(row, verb)).status_code
    able = ("view_schedule", "disable_schedule", "run_schedule")
    strict = staff(*able, enforce_csrf_checks=True)
    assert 403 == strict.post(on(row, verb), REASON).status_code
    assert goal(client.post(on(row, verb), REASON)).startswith("/admin/login/")
    assert before == everything()
