"""The page of one job: what happened, with what, and what is next."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import escape
from importlib.resources import files
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client

from django_jobs.admin.timeline import CANCELLED_FOR, REASONS
from django_jobs.models import Event, Job, Lease, Worker
from django_jobs.operations.explain import explain
from django_jobs.states import FINAL, JobState
from tests.admin.pages import DEAD, JOBS, WORKERS, goal, page_of, shown, told, verb_on
from tests.operations.desk import job_row
from tests.operations.ended import ended, live

pytestmark = pytest.mark.django_db


def event(pk: int, attempt: int, kind: str = "failed", **columns: Any) -> Event:
    return Event.objects.create(job_id=pk, kind=kind, attempt=attempt, life=1, **columns)


def failed(pk: int, attempt: int, **data: Any) -> Event:
    return event(pk, attempt, data=data)


def worker(name: str = "web-1", pid: int = 42) -> Worker:
    return Worker.objects.create(
        id=uuid4(), backend="default", name=name, pid=pid, version="1", capacity=6
    )


@pytest.mark.parametrize("state", JobState.values)
def test_every_state_has_its_badge_and_its_sentence(viewer: Client, state: str) -> None:
    pk = ended(1, state)[0] if state in FINAL else live(state)
    page = shown(viewer, page_of(pk))
    verdict = explain(pk, database="default").verdict
    assert f"<strong>{escape(verdict.sentence)}</strong>" in page
    assert f'jobs-badge jobs-{state}"' in page


def test_the_timeline_tells_the_story_in_order(viewer: Client) -> None:
    [pk] = ended()
    Event.objects.all().delete()
    host = worker()
    for attempt in (1, 2):
        failed(
            pk,
            attempt,
            reason="retry",
            error=f"OSError: no {attempt}",
            traceback=f"trace {attempt}",
        )
    end = {"reason": "attempts", "error": "OSError: end", "class": "OSError"}
    event(pk, 3, "dead", worker=host.pk, data={**end, "traceback": "trace 3"})
    page = shown(viewer, page_of(pk))
    told = ["OSError: no 1", "trace 1", "OSError: no 2", "trace 2", "OSError: end", "trace 3"]
    story = ["enqueued", *told]
    places = [page.index(word, page.index('jobs-timeline"')) for word in story]
    assert sorted(places) == places
    assert "web-1:42" in page
    assert 1 == page.count("<details open>")  # the latest


def test_a_requeue_is_part_of_the_story(operator: Client) -> None:
    [pk] = ended()
    operator.post(verb_on("requeue", pk))
    page = shown(operator, page_of(pk))
    assert "requeued, it was dead" in page
    assert "by staff0" in page
    assert "life 2" in page


def test_a_success_has_no_event_and_is_told_all_the_same(viewer: Client) -> None:
    [pk] = ended(1, "succeeded")
    Event.objects.all().delete()
    page = shown(viewer, page_of(pk))
    assert "jobs-line-succeeded" in page


def test_an_end_with_an_event_is_told_once(viewer: Client) -> None:
    [pk] = ended(1, "dead")
    assert 1 == shown(viewer, page_of(pk)).count("jobs-line-dead")


def test_a_running_job_names_its_worker_and_its_lease(viewer: Client) -> None:
    pk, host = live("running"), worker()
    lease = Lease.objects.create(job_id=pk, worker=host.pk, expires_at="2999-01-01T00:00Z")
    page = shown(viewer, page_of(pk))
    assert "web-1:42</a> holds it; unless it is renewed, its lease ends" in page
    Lease.objects.filter(pk=lease.pk).update(expires_at="2020-01-01T00:00Z")
    assert "The next sweep of a live worker takes the job back" in shown(viewer, page_of(pk))
    host.delete()
    assert str(lease.worker) in shown(viewer, page_of(pk))


def test_the_name_of_a_worker_leads_to_it(viewer: Client, staff: Callable[..., Client]) -> None:
    [pk] = ended()
    host = worker()
    Event.objects.update(worker=host.pk)
    link = f'<a href="{WORKERS}{host.pk}/change/">web-1:42</a>'
    assert link in shown(viewer, page_of(pk))
    page = shown(staff("view_job"), page_of(pk))
    assert "web-1:42" in page
    assert WORKERS not in page
    host.delete()
    assert link not in shown(viewer, page_of(pk))


def test_reasons_are_words_with_the_code_in_the_title(viewer: Client) -> None:
    [pk] = ended()
    assert 'title="attempts">after the last attempt<' in shown(viewer, page_of(pk))
    Event.objects.update(kind="cancelled")  # there the reason is somebody's own words
    page = shown(viewer, page_of(pk))
    assert '<span class="jobs-reason">attempts<' in page


def test_every_code_of_a_reason_has_its_words() -> None:
    told = "".join(
        file.read_text()
        for part in ("worker", "operations")
        for file in (files("django_jobs") / part).iterdir()
        if file.name.endswith(".py")
    )
    codes = re.findall(r'(?:reason=|_held\(|_died\(job, error, )"(\w+)"', told)
    assert {*codes, "retry", "attempts", "worker_lost", "late"} == {*REASONS}


def test_every_code_that_a_statement_writes_has_its_words() -> None:
    statements = (file.read_text() for file in (files("django_jobs") / "sql").iterdir()
                  if file.name.endswith(".sql"))  # fmt: skip
    codes = re.findall(r'"reason": ?"(\w+)"', "".join(statements))
    assert {*codes} <= {*REASONS, *CANCELLED_FOR}
    assert {*CANCELLED_FOR, "late"} <= {*codes}


def test_the_first_and_the_last_start_are_told(viewer: Client) -> None:
    [pk] = ended(1, started_at=Now() - timedelta(seconds=60))
    page = shown(viewer, page_of(pk))
    assert "<strong>first started</strong>" in page
    assert "<strong>last started</strong> · attempt 3" in page
    Job.objects.update(started_at=F("last_attempted_at") - timedelta(microseconds=3))
    page = shown(viewer, page_of(pk))
    assert "<strong>started</strong>" in page
    assert "first started" not in page.lower()


def test_a_short_attempt_is_told_in_milliseconds(viewer: Client) -> None:
    [pk] = ended(1, "succeeded")
    Job.objects.update(finished_at=F("last_attempted_at") + timedelta(milliseconds=12))
    assert "Its last attempt took 12 ms." in shown(viewer, page_of(pk))


def test_a_long_history_shows_its_ends(viewer: Client) -> None:
    [pk] = ended(1, "succeeded")
    Event.objects.all().delete()
    for attempt in range(1, 121):
        failed(pk, attempt, error=f"number {attempt}.")
    page = shown(viewer, page_of(pk))
    seen = [n for n in range(1, 121) if f"number {n}." in page]
    assert [*range(1, 21), *range(41, 121)] == seen
    assert "A long history" in page


def test_a_history_that_fits_is_whole(viewer: Client) -> None:
    [pk] = ended(1, "succeeded")
    Event.objects.all().delete()
    for attempt in range(1, 101):
        failed(pk, attempt, error=f"number {attempt}.")
    page = shown(viewer, page_of(pk))
    assert list(range(1, 101)) == [n for n in range(1, 101) if f"number {n}." in page]
    assert "A long history" not in page


def test_arguments_are_indented(viewer: Client) -> None:
    [pk] = ended(1, args=[1, "two"], kwargs={"b": {"x": 1e16}, "a": "José"}, metadata={"m": 1})
    page = shown(viewer, page_of(pk))
    assert "[\n  1,\n  &quot;two&quot;\n]" in page
    kwargs = '{\n  "b": {\n    "x": 1e+16\n  },\n  "a": "José"\n}'
    assert escape(kwargs) in page
    assert "Metadata" in page
    assert "Result" not in page


def test_a_huge_argument_is_cut_and_said_to_be(viewer: Client) -> None:
    [pk] = ended(1, args=["x" * 20_000], kwargs={"y": "z" * 900_000}, result="r" * 10)
    page = shown(viewer, page_of(pk))
    assert 16_000 < page.count("x") < 17_000
    assert 16_000 < page.count("z") < 17_000
    assert 2 == page.count("Cut: it is longer than is shown here.")


def test_a_huge_traceback_is_cut(viewer: Client) -> None:
    [pk] = ended(1, "succeeded")
    failed(pk, 1, error="x", traceback="q" * 200_000)
    assert shown(viewer, page_of(pk)).count("q") < 17_000


@pytest.mark.parametrize(
    "text", ["no json", "", "[1", '"\\ud800"', "[" * 100_000, "1" * 5000, "NaN", '"\\u0000"']
)
def test_a_stored_text_that_is_no_json_is_shown_as_it_is(viewer: Client, text: str) -> None:
    [pk] = ended()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET args = %s, result = %s", [text, text])
        cursor.execute("UPDATE django_jobs_event SET data = %s", [text])
    page = shown(viewer, page_of(pk))
    assert text.replace('"', "&quot;")[:1000] in page
    shown(viewer, JOBS)
    shown(viewer, DEAD)


@pytest.mark.parametrize(
    "data", [[], "x", 1, None, {"error": {"a": 1}}, {"traceback": [1]}, {"reason": 1, "class": []}]
)
def test_an_event_of_another_version_is_shown_as_far_as_it_goes(viewer: Client, data: Any) -> None:
    [pk] = ended()
    Event.objects.update(data=data, kind="of a later version")
    assert "of a later version" in shown(viewer, page_of(pk))


def test_a_state_of_another_version_is_shown_as_it_is(operator: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_jobs_job DROP CONSTRAINT django_jobs_job_known_state")
    pk = live("zzz")
    page = shown(operator, page_of(pk))
    assert "does not know this state" in page
    assert "zzz" in page
    response = operator.post(verb_on("requeue", pk))
    assert ["0 jobs requeued. 1 was left alone: 1 zzz."] == told(operator, response)


@pytest.mark.parametrize("path", ["gone.tasks.old", "", "os.system", "../../etc", "x" * 10_000])
def test_a_task_that_no_code_knows_is_shown_and_not_imported(viewer: Client, path: str) -> None:
    [pk] = ended(1, task=path)
    assert path[:500] in shown(viewer, page_of(pk))
    shown(viewer, DEAD)


@pytest.mark.parametrize("wrong", ["0", "x", "1.5", "-1", "9" * 30, "%00", "\u0661"])
def test_a_job_that_is_not_there_leads_to_the_list(viewer: Client, wrong: str) -> None:
    response = viewer.get(f"{JOBS}{wrong}/change/")
    [message] = told(viewer, response)
    assert "may have been purged" in message
    assert JOBS == goal(response)


def test_a_dead_letter_leads_to_the_page_of_the_job(viewer: Client) -> None:
    [pk] = ended()
    assert page_of(pk) in shown(viewer, DEAD)
    assert page_of(pk) == goal(viewer.get(f"{DEAD}{pk}/change/"))


def test_the_page_costs_few_statements(admin_client: Client, django_assert_num_queries) -> None:
    [pk] = ended()
    for number in range(60):
        Event.objects.create(
            job_id=pk, kind="failed", attempt=number, life=1, worker=worker(pid=number).pk
        )
    # session, user; two time limits with a savepoint each; job, events, kin, workers; why
    with django_assert_num_queries(2 + 2 * 4 + 4 + 1):
        shown(admin_client, page_of(pk))
    running = live("running")
    Lease.objects.create(job_id=running, worker=worker().pk, expires_at="2999-01-01T00:00Z")
    with django_assert_num_queries(2 + 2 * 4 + 5 + 1):  # its lease
        shown(admin_client, page_of(running))
    ready = live("ready")
    # of why: the job, its queue, workers, what they hold, what they skip, jobs ahead
    Job.objects.filter(pk=ready).update(placement=7)
    with django_assert_num_queries(2 + 2 * 4 + 3 + 6):
        shown(admin_client, page_of(ready))


def test_looking_changes_nothing(viewer: Client) -> None:
    [pk] = ended()
    before = Job.objects.values().get()
    shown(viewer, page_of(pk))
    assert before == Job.objects.values().get()


def test_ages_are_those_of_the_database(viewer: Client) -> None:
    [pk] = ended(1, "succeeded")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_jobs_job SET enqueued_at = statement_timestamp() - interval '200000 s'"
        )
    assert "2 d 7 h ago" in shown(viewer, page_of(pk))
    assert job_row(pk).enqueued_at.isoformat() in shown(viewer, page_of(pk))
