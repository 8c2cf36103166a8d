"""The schedules: the list, the page of each, and what a job says of the one that made it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_jobs.admin.cells import NBSP
from django_jobs.admin.filters import made_by
from django_jobs.models import Job, Schedule, Worker
from tests.admin.pages import DEAD, JOBS, SCHEDULES, goal, page_of, shown, told
from tests.operations.ended import ended
from tests.operations.timetables import entries, put_cron
from tests.worlds import register

pytestmark = pytest.mark.django_db

NIGHTLY = {"schedule": "0 3 * * *", "timezone": "Europe/Rome"}


@pytest.fixture(autouse=True)
def in_the_settings(settings: Any) -> None:
    put_cron(settings, nightly=NIGHTLY)


def now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        return cursor.fetchone()[0]  # type: ignore[no-any-return]


def ago(**length: float) -> datetime:
    return now() - timedelta(**length)


def schedule(name: str = "nightly", **columns: Any) -> Schedule:
    """Add the row of an entry, as a worker with these settings writes it."""
    [entry] = entries(nightly=NIGHTLY).values()
    written = {
        "task": entry.task, "schedule": entry.schedule, "timezone": entry.timezone,
        "digest": entry.digest, "next_at": now() + timedelta(hours=2, minutes=5, seconds=9),
    }  # fmt: skip
    return Schedule.objects.create(name=name, **{**written, **columns})


def page_of_schedule(row: Schedule) -> str:
    return f"{SCHEDULES}{row.pk}/change/"


def fires(**columns: Any) -> None:
    """Let a worker that fires schedules be there."""
    register(**{"cron": True, **columns})


def words(client: Client, address: str) -> str:
    """What a page shows, unescaped."""
    return unescape(shown(client, address)).replace(NBSP, " ")


def names(client: Client, query: str) -> list[str]:
    return [row.name for row in client.get(f"{SCHEDULES}?{query}").context["cl"].result_list]


# The list


def test_the_list_says_what_when_and_where(viewer: Client) -> None:
    schedule(next_at="2999-12-01T02:00Z", catch_up="all", overlap="skip")
    page = words(viewer, SCHEDULES)
    for text in (
        ">nightly<", "tests.tasks.ok", "every day at 03:00", "0 3 * * * Europe/Rome",
        "Sun 2999-12-01 03:00 CET", "</span> enabled", ">all<", ">skip<",
    ):  # fmt: skip
        assert text in page, text


def test_a_schedule_without_plain_words_is_shown_alone(viewer: Client) -> None:
    schedule(schedule="*/7 1-5 * * mon")
    assert "<code>*/7 1-5 * * mon</code>" in words(viewer, SCHEDULES)


def test_one_that_should_have_been_fired_is_now_due(viewer: Client) -> None:
    schedule()
    assert "in 2 h 05 m" in words(viewer, SCHEDULES)
    assert "</span> now due" not in words(viewer, SCHEDULES)
    Schedule.objects.update(next_at=ago(minutes=3, seconds=0.5))
    page = words(viewer, SCHEDULES)
    assert "</span> now due" in page
    assert ">for 3 m 00 s<" in page


@pytest.mark.parametrize("held", ["disabled_at", "gone_at"])
def test_one_that_does_not_fire_is_never_due(viewer: Client, held: str) -> None:
    columns: dict[str, Any] = {held: Now()}
    row = schedule(next_at=ago(hours=1), **columns)
    for address in (SCHEDULES, page_of_schedule(row)):
        page = words(viewer, address)
        assert "</span> now due" not in page
        assert f"</span> {'gone' if held == 'gone_at' else 'disabled'}<" in page


def test_the_last_run_is_a_job_with_its_state_and_its_lateness(viewer: Client) -> None:
    [job] = ended(schedule="nightly", scheduled_for=ago(hours=1))
    fired = ago(minutes=59, seconds=0.5)
    schedule(last_job=job, fired_at=fired, last_at=fired - timedelta(seconds=1.3))
    page = words(viewer, SCHEDULES)
    assert f'</span> dead</span> <a href="{page_of(job)}">{job}</a>' in page
    assert ">59 m 00 s ago</time>, 1.3 s late" in page
    assert "by an operator" not in page


def test_the_last_run_may_have_been_by_hand_or_purged(viewer: Client) -> None:
    [job] = ended(schedule="nightly")
    schedule(last_job=job)
    assert "run by an operator" in words(viewer, SCHEDULES)
    Job.objects.all().delete()
    assert f"{job}</a> purged" in words(viewer, SCHEDULES)
    Schedule.objects.update(last_job=None)
    assert ">never<" in words(viewer, SCHEDULES)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("late", "it came too late to be made up for"),
        ("overlap", "its last job was still live"),
        ("unique", "a live job had its unique key"),
        ("eclipse", "eclipse"),
    ],
)
def test_the_last_occurrence_without_a_job_says_why(viewer: Client, code: str, why: str) -> None:
    row = schedule(missed_at="2026-11-30T02:00Z", missed_why=code)
    assert f"Mon 2026-11-30 03:00 CET</time>: {why}" in words(viewer, SCHEDULES)
    page = words(viewer, page_of_schedule(row))
    assert "Mon 2026-11-30 03:00 CET" in page
    assert why in page


@pytest.mark.parametrize(
    ("columns", "badge", "more"),
    [
        ({}, "enabled", []),
        ({"enabled": False}, "off", ["switched off in the settings"]),
        (
            {"disabled_at": Now(), "disabled_by": "ana", "disabled_reason": "100 % noise"},
            "disabled", ["by ana, ", " ago", "“100 % noise”"],
        ),
        ({"disabled_at": Now(), "enabled": False}, "disabled", ["by somebody, "]),
        ({"gone_at": Now(), "disabled_at": Now()}, "gone", ["out of the settings, "]),
    ],
)  # fmt: skip
def test_the_state_says_who_since_when_and_why(
    viewer: Client, columns: dict[str, Any], badge: str, more: list[str]
) -> None:
    row = schedule(**columns)
    for address in (SCHEDULES, page_of_schedule(row)):
        page = words(viewer, address)
        for text in (f"</span> {badge}<", *more):
            assert text in page, (address, text)


def test_jobs_are_named_without_links_to_those_who_may_not_follow(
    staff: Callable[..., Client],
) -> None:
    [job] = ended(schedule="nightly")
    row = schedule(last_job=job)
    client = staff("view_schedule")
    for address in (SCHEDULES, page_of_schedule(row)):
        page = shown(client, address)
        assert str(job) in page
        assert JOBS not in page


def test_the_list_takes_the_same_statements_however_many_schedules(
    viewer: Client, django_assert_num_queries: Any
) -> None:
    [job] = ended(schedule="nightly")
    schedule(last_job=job)
    # session and user; permissions of the user and of his groups; the time limit, set and unset,
    # in a savepoint of this test; count, rows, last jobs, workers, all rows in short
    with django_assert_num_queries(2 + 2 + 4 + 5):
        shown(viewer, SCHEDULES)
    for number in range(20):
        schedule(f"number {number}", last_job=ended(schedule=f"number {number}")[0])
        fires(name=f"host {number}")
    with django_assert_num_queries(2 + 2 + 4 + 5):
        shown(viewer, SCHEDULES)


def test_schedules_are_found_by_a_part_of_name_or_task(viewer: Client) -> None:
    schedule()
    schedule("mails", task="shop.tasks.send")
    assert ["mails"] == names(viewer, "q=MAIL")
    assert ["mails"] == names(viewer, "q=%20shop.%20")
    assert ["nightly"] == names(viewer, "q=tests.tasks")
    assert [] == names(viewer, "q=%25")
    shown(viewer, f"{SCHEDULES}?q=%00")  # Django drops it, and says so
    assert ["mails", "nightly"] == names(viewer, "q=")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("enabled", ["due", "on"]), ("due", ["due"]), ("disabled", ["disabled"]), ("off", ["off"]),
        ("removed", ["gone"]), ("zzz", []), ("%00", []),
    ],
)  # fmt: skip
def test_states_can_be_told_apart(viewer: Client, state: str, expected: list[str]) -> None:
    schedule("on")
    schedule("due", next_at=Now())
    schedule("disabled", disabled_at=Now(), enabled=False)
    schedule("off", enabled=False)
    schedule("gone", gone_at=Now(), disabled_at=Now(), next_at=Now())
    assert expected == names(viewer, f"state={state}")


def test_backends_can_be_told_apart_where_there_are_several(viewer: Client, settings: Any) -> None:
    schedule("a")
    schedule("b", backend="old")
    assert "?backend=" not in shown(viewer, SCHEDULES)
    assert ["b"] == names(viewer, "backend=old")
    settings.TASKS = {**settings.TASKS, "second": settings.TASKS["default"]}
    assert "?backend=second" in shown(viewer, SCHEDULES)


# What stands above the list


def warnings(client: Client) -> list[str]:
    return [each.text for each in client.get(SCHEDULES).context["cl"].warned]


def test_nobody_who_fires_is_the_first_thing_that_the_list_says(viewer: Client) -> None:
    schedule()
    schedule("weekly", next_at=ago(minutes=1))
    text = "No worker fires the schedules of default: 1 schedule is late."
    assert [text] == warnings(viewer)
    page = shown(viewer, SCHEDULES)
    assert page.index(text) < page.index("result_list")
    assert "python manage.py jobworker<" in page
    schedule("yearly", next_at=ago(minutes=1))
    assert ["No worker fires the schedules of default: 2 schedules are late."] == warnings(viewer)
    Schedule.objects.update(next_at=now() + timedelta(hours=1))
    text = "No worker fires the schedules of default: 3 schedules wait for their time."
    assert [text] == warnings(viewer)


@pytest.mark.parametrize(
    "columns",
    [
        {"cron": False},
        {"state": "stopped"},
        {"seen_at": Now() - timedelta(seconds=31)},  # it was to be heard of every ten
        {"loop_at": Now() - timedelta(seconds=31)},
        {"backend": "other"},
    ],
)
def test_a_worker_that_fires_no_schedule_of_the_backend_is_nobody(
    viewer: Client, columns: dict[str, Any]
) -> None:
    row = schedule()
    fires(**columns)
    assert "No worker fires" in warnings(viewer)[0]
    assert "No live worker fires the schedules of default." in shown(viewer, page_of_schedule(row))
    fires()
    assert [] == warnings(viewer)
    assert [] == viewer.get(page_of_schedule(row)).context["warnings"]


def test_nobody_is_missed_where_nothing_is_to_be_fired(viewer: Client) -> None:
    rows = [
        schedule(enabled=False),
        schedule("b", disabled_at=Now()),
        schedule("c", gone_at=Now()),
    ]
    assert [] == warnings(viewer)
    for row in rows:
        assert "No live worker" not in shown(viewer, page_of_schedule(row))


def test_one_that_is_late_although_a_worker_fires_is_named(viewer: Client) -> None:
    row = schedule(next_at=ago(seconds=60))
    fires()
    [text] = warnings(viewer)
    assert "nightly is late although a live worker fires schedules" in text
    assert "It is late although" in shown(viewer, page_of_schedule(row))
    Schedule.objects.update(next_at=ago(seconds=2))  # a worker may be about it
    assert [] == warnings(viewer)
    assert "It is late although" not in shown(viewer, page_of_schedule(row))


def test_what_no_worker_has_written_down_is_named(viewer: Client, settings: Any) -> None:
    [text] = warnings(viewer)
    assert "nightly is in the settings, and no worker has written it down yet." == text
    put_cron(settings, **{f"number {number}": {} for number in range(10, 22)})
    [text] = warnings(viewer)
    assert "number 10, number 11" in text
    assert "number 19 and 2 more are in the settings" in text


def test_settings_that_cannot_be_read_are_told(viewer: Client, settings: Any) -> None:
    row = schedule()
    fires()
    put_cron(settings, nightly={"schedule": "every day"})
    assert "'every day'" in warnings(viewer)[0]
    assert "'every day'" in words(viewer, page_of_schedule(row))


def test_an_empty_list_says_where_schedules_come_from(viewer: Client, settings: Any) -> None:
    put_cron(settings)
    assert 'no schedule yet: workers write down what the settings say in OPTIONS["cron"]' in words(
        viewer, SCHEDULES
    )
    assert "There is no schedule yet" not in shown(viewer, f"{SCHEDULES}?q=x")
    schedule()
    assert "There is no schedule yet" not in shown(viewer, SCHEDULES)


# The page of one


def test_the_page_says_what_the_row_says(viewer: Client) -> None:
    row = schedule(
        last_at="2026-11-30T02:00Z", fired_at="2026-11-30T02:00:01.5Z", queue="mail",
        since="2026-11-01T00:00Z", last_job=7,
    )  # fmt: skip
    page = words(viewer, page_of_schedule(row))
    for text in (
        "tests.tasks.ok", "<code>0 3 * * *</code>", "every day at 03:00", "Europe/Rome", ">mail<",
        "one job for all that was missed", "allowed: its last job may still be live",
        "Mon 2026-11-30 03:00 CET", "1.5 s late", "in 2 h 05 m", "Next occurrences<",
    ):  # fmt: skip
        assert text in page, text


def test_the_bounds_of_a_catch_up_are_told_where_they_are_known(
    viewer: Client, settings: Any
) -> None:
    for said, text in (
        ({"catch_up": "all", "catch_up_limit": 7}, "a job for each that was missed, 7 at most"),
        ({"catch_up": "skip", "grace": 90}, "when it is more than 1 m 30 s late"),
    ):
        put_cron(settings, nightly={**NIGHTLY, **said})
        entry = entries(nightly={**NIGHTLY, **said})["nightly"]
        row = schedule(digest=entry.digest, catch_up=entry.catch_up)
        assert text in words(viewer, page_of_schedule(row))
        Schedule.objects.update(digest="of another version")
        assert text not in words(viewer, page_of_schedule(row))
        row.delete()


def test_five_occurrences_are_named_and_that_they_would_be_of_a_disabled_one(
    viewer: Client,
) -> None:
    row = schedule(disabled_at=Now())
    response = viewer.get(page_of_schedule(row))
    assert 5 == len(response.context["coming"])
    assert b"Next occurrences, were it enabled" in response.content


def test_the_last_twenty_jobs_are_its_own(viewer: Client) -> None:
    row = schedule()
    mine = ended(22, "succeeded", schedule="nightly", scheduled_for="2026-11-30T02:00Z")
    ended(2, schedule="nightly", backend="other")
    ended(2, schedule="weekly")
    ended(2)
    response = viewer.get(page_of_schedule(row))
    lines = [each.job for each in response.context["lines"]]
    assert [f'<a href="{page_of(pk)}">{pk}</a>' for pk in mine[:1:-1]] == lines
    assert b"Mon 2026-11-30 03:00 CET" in response.content


def test_a_job_of_it_says_how_late_it_was_and_how_long_it_took(viewer: Client) -> None:
    row = schedule()
    at = ago(minutes=10)
    ended(
        schedule="nightly", scheduled_for=at, enqueued_at=at + timedelta(seconds=2.25),
        last_attempted_at=at + timedelta(seconds=3), finished_at=at + timedelta(seconds=67),
    )  # fmt: skip
    [line] = viewer.get(page_of_schedule(row)).context["lines"]
    assert ("2.2 s", "1 m 04 s") == (line.late, line.took)
    Job.objects.update(scheduled_for=None, last_attempted_at=None)
    [line] = viewer.get(page_of_schedule(row)).context["lines"]
    assert ("run by an operator", "", "") == (line.occurrence, line.late, line.took)


def test_the_last_jobs_are_found_by_their_index(viewer: Client) -> None:
    row = schedule()
    ended(3000)
    ended(30, schedule="nightly", backend="other")
    ended(1, schedule="nightly")
    with connection.cursor() as cursor, CaptureQueriesContext(connection) as caught:
        cursor.execute("ANALYZE django_jobs_job")
        shown(viewer, page_of_schedule(row))
        [asked] = [each["sql"] for each in caught.captured_queries if "LIMIT 20" in each["sql"]]
        cursor.execute(f"EXPLAIN {asked}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Index Scan using django_jobs_job_schedule" in plan
    assert "Sort" not in plan


def test_a_page_takes_the_same_statements_whatever_it_shows(
    viewer: Client, django_assert_num_queries: Any
) -> None:
    row = schedule()
    # as of the list; the row, its last job, its jobs, workers; what it would enqueue is tried
    for count in (1, 30):
        made = ended(count, schedule="nightly")
        Schedule.objects.update(last_job=made[-1])
        fires(name=f"host {count}")
        with django_assert_num_queries(2 + 2 + 4 + 4 + 2):
            shown(viewer, page_of_schedule(row))


def test_a_row_of_another_version_is_told_and_what_differs(viewer: Client) -> None:
    row = schedule(digest="of another version", timezone="UTC", overlap="skip")
    fires()
    page = words(viewer, page_of_schedule(row))
    assert "This process has another version of it" in page
    assert "What differs: timezone, overlap." in page
    Schedule.objects.update(timezone="Europe/Rome", overlap="allow")
    assert "What differs: what its row does not hold" in words(viewer, page_of_schedule(row))


def test_an_entry_that_this_process_does_not_have_is_told(viewer: Client) -> None:
    row = schedule("elsewhere")
    text = "The settings of this process do not have it"
    assert text in shown(viewer, page_of_schedule(row))
    Schedule.objects.update(name="nightly")
    assert text not in shown(viewer, page_of_schedule(row))


def test_a_task_that_is_not_here_is_told(viewer: Client, settings: Any) -> None:
    put_cron(settings, nightly={**NIGHTLY, "task": "tests.tasks.away"})
    row = schedule()
    page = words(viewer, page_of_schedule(row))
    assert "Nothing can be enqueued for it here:" in page
    assert "its module has no away" in page


def test_one_that_can_never_fire_here_is_told(viewer: Client) -> None:
    row = schedule(schedule="0 0 31 2 *")
    page = words(viewer, page_of_schedule(row))
    assert "here it never fires: no month that it names has such a day" in page
    assert "Next occurrences" not in page
    Schedule.objects.update(timezone="Mars/Olympus", schedule="* * * * *")
    assert "there is no time zone “Mars/Olympus”" in words(viewer, page_of_schedule(row))
    shown(viewer, SCHEDULES)


def test_one_that_has_gone_is_not_warned_of(viewer: Client) -> None:
    row = schedule("elsewhere", gone_at=Now(), schedule="x")
    assert [] == viewer.get(page_of_schedule(row)).context["warnings"]


def test_a_fault_of_the_sites_own_code_leaves_the_page(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails in the database must not end the transaction that the page is made in."""
    row = schedule()

    def keys(*_args: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    monkeypatch.setattr("django_jobs.backend.JobsBackend.new_job", keys)
    page = words(viewer, page_of_schedule(row))
    assert "Nothing can be enqueued for it here: division by zero" in page
    assert Schedule.objects.exists()


@pytest.mark.parametrize("pk", ["7", "0", "x", "9" * 19, "9" * 40, "%00", "_5F"])
def test_a_schedule_that_is_not_there_leads_to_the_list(viewer: Client, pk: str) -> None:
    response = viewer.get(f"{SCHEDULES}{pk}/change/")
    assert SCHEDULES == goal(response)
    assert ["There is no such schedule."] == told(viewer, response)


def test_the_page_is_only_looked_at(operator: Client, staff: Callable[..., Client]) -> None:
    row = schedule()
    assert 403 == operator.post(page_of_schedule(row), {"enabled": ""}).status_code
    other = staff("view_job", "disable_schedule", "run_schedule")
    assert 403 == other.get(page_of_schedule(row)).status_code


# What a job says


def test_the_page_of_a_job_names_its_schedule_and_its_occurrence(
    viewer: Client, staff: Callable[..., Client]
) -> None:
    schedule(backend="another")
    row = schedule()
    [job] = ended(schedule="nightly", scheduled_for="2026-11-30T02:00Z")
    page = words(viewer, page_of(job))
    assert f'<a href="{page_of_schedule(row)}">nightly</a>, for ' in page
    assert "Mon 2026-11-30 03:00 CET" in page
    page = shown(staff("view_job"), page_of(job))
    assert "<td>nightly, for " in page
    assert page_of_schedule(row) not in page
    Job.objects.update(scheduled_for=None)
    assert "nightly</a>, run by an operator" in shown(viewer, page_of(job))


def test_a_schedule_whose_row_is_not_there_is_named_too(viewer: Client) -> None:
    [job] = ended(schedule="nightly", scheduled_for="2026-11-30T02:00Z")
    page = shown(viewer, page_of(job))
    assert "<td>nightly, for " in page
    assert "Mon 2026-11-30 02:00 UTC" in page
    Job.objects.update(schedule=None)
    assert "nightly" not in shown(viewer, page_of(job))


@pytest.mark.parametrize("address", [JOBS, DEAD])
def test_a_list_names_the_schedule_and_leads_to_all_of_its_jobs(
    viewer: Client, address: str
) -> None:
    ended(schedule="a b", scheduled_for="2026-11-30T02:00Z")
    page = shown(viewer, address)
    assert f'schedule <a href="{JOBS}?schedule=default%3Aa+b">a b</a>, for ' in page
    assert "2026-11-30 02:00:00 UTC</time>" in page
    Job.objects.update(scheduled_for=None)
    assert "a b</a>, run by an operator" in shown(viewer, address)


def test_jobs_can_be_told_by_their_schedule(viewer: Client) -> None:
    [mine] = ended(schedule="a:b")
    ended(schedule="a:b", backend="other")
    ended(schedule="a")
    ended()

    def found(value: str) -> list[int]:
        response = viewer.get(JOBS, {"schedule": value})
        return [job.pk for job in response.context["cl"].result_list]

    assert [mine] == found("default:a:b")
    [colon] = ended(schedule="a", backend="b:c%")
    assert [colon] == found(made_by("b:c%", "a"))
    assert [] == found("b%00:a")
    for value in ("a:b", "default", "default:", ":", "default:%", "x:\0"):
        assert [] == found(value)
    page = shown(viewer, JOBS)
    assert "?schedule=default%3Anightly" in page  # by the settings
    assert 'title="nightly"' in page or ">nightly<" in page
    assert "a:b</a>" in shown(viewer, f"{JOBS}?schedule=default%3Aa%3Ab")


def test_broken_settings_leave_the_list_of_jobs(viewer: Client, settings: Any) -> None:
    put_cron(settings, nightly={"schedule": "x"})
    assert "?schedule=" not in shown(viewer, JOBS)


def test_without_schedules_there_is_no_such_filter(viewer: Client, settings: Any) -> None:
    put_cron(settings)
    assert "?schedule=" not in shown(viewer, JOBS)
    assert not Worker.objects.exists()
