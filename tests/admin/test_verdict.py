"""The page of a job opens with why it is not running, and with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import escape
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from django_jobs.admin import bounded, job_page
from django_jobs.models import Activity, Event, Job, Lease, Placement, Queue, Skip, Worker
from django_jobs.operations.explain import explain
from django_jobs.operations.pause import pause
from tests.admin.pages import (
    DEAD,
    JOBS,
    QUEUES,
    WORKERS,
    choose,
    goal,
    page_of,
    page_of_queue,
    shown,
    told,
    verb_on,
)
from tests.operations.desk import job_row
from tests.operations.ended import ANA, ended, live

pytestmark = pytest.mark.django_db

CHECKS, HOSTS = 'id="jobs-checks"', 'id="jobs-hosts"'


def job(**columns: Any) -> int:
    return Job.objects.create(task="tests.tasks.ok", queue="mail", **columns).pk


def serve(*names: str, **columns: Any) -> Worker:
    columns = {"name": "web-1", "pid": 7, "default_slots": 8, "capacity": 6, **columns}
    return Worker.objects.create(
        id=uuid4(), backend="default", queues=list(names) or None, version="1", **columns
    )


def pause_mail() -> None:
    pause("mail", backend="default", actor=ANA, reason="bad feed", database="default")


def banner(client: Client, pk: int) -> str:
    """The text of the first sentence of a job's page, its markup left out."""
    page = shown(client, page_of(pk))
    found = re.search(r'<p class="jobs-sentence">(.*?)</p>', page)
    assert found is not None
    assert page.index(found[0]) < page.index("jobs-timeline")
    return re.sub(r"<[^>]*>", "", found[1])


def commands(client: Client, pk: int) -> list[str]:
    page = shown(client, page_of(pk))
    return re.findall(r'<code class="jobs-command" tabindex="0">(.*?)</code>', page)


def test_a_job_that_nobody_serves_names_queue_and_command(viewer: Client) -> None:
    pk = job(enqueued_at=Now() - timedelta(seconds=200))
    expected = "● ready for 3 m 20 s — No live worker serves the queue “mail”."
    assert expected == banner(viewer, pk)
    [command] = commands(viewer, pk)
    assert command.endswith("jobworker --queue mail")


def test_which_queues_are_served_instead_stands_right_under_the_sentence(viewer: Client) -> None:
    pk = job()
    serve("photos", "default")
    page = re.sub(r"\s+", " ", shown(viewer, page_of(pk)))
    assert "</strong></p> <p>1 live worker serves default, photos.</p> <p>Run:" in page
    queue = re.sub(r"\s+", " ", shown(viewer, page_of_queue("mail")))
    assert "</strong></p> <p>1 live worker serves default, photos.</p> <p>Run:" in queue


def test_a_paused_queue_says_by_whom_and_what_comes_next(operator: Client) -> None:
    pk = job()
    pause_mail()
    assert banner(operator, pk).endswith("— The queue “mail” is paused by ana (“bad feed”).")
    page = shown(operator, page_of(pk))
    assert "No live worker serves the queue “mail”." in page  # even after resuming
    assert '<button type="submit" class="button jobs-named">Resume the queue</button>' in page


def test_run_now_is_the_button_of_a_scheduled_job(operator: Client) -> None:
    pk = job(state="scheduled", run_after=Now() + timedelta(seconds=500))
    assert banner(operator, pk).startswith("◷ scheduled due in 8 m ")
    page = shown(operator, page_of(pk))
    assert '<button type="submit" class="button jobs-named">Run now</button>' in page
    response = operator.post(verb_on("run", pk))
    assert page_of(pk) == goal(response)
    assert ["1 job is ready now."] == told(operator, response)
    assert "ready" == job_row(pk).state
    act = Activity.objects.get()
    assert ("run_now", "staff0", "admin") == (act.verb, act.actor_name, act.via)
    assert "run now" in shown(operator, page_of(pk))  # the timeline's word
    assert verb_on("run", pk) not in shown(operator, page_of(pk))


def test_only_a_scheduled_job_can_be_run_now(operator: Client) -> None:
    for pk in (live("ready"), live("running"), *ended()):
        before = job_row(pk)
        assert verb_on("run", pk) not in shown(operator, page_of(pk))
        [message] = told(operator, operator.post(verb_on("run", pk)))
        assert message.startswith("0 jobs are ready now. 1 was left alone: 1 ")
        assert before == job_row(pk)


def test_scheduled_jobs_can_be_ticked_and_run(operator: Client) -> None:
    soon, later, other = live("scheduled"), live("scheduled"), live("ready")
    response = choose(operator, "run_selected", soon, later, other, at=JOBS)
    assert ["2 jobs are ready now. 1 was left alone: 1 ready."] == told(operator, response)
    assert "run_selected" in shown(operator, JOBS)
    ended()
    assert "run_selected" not in shown(operator, DEAD)


def test_many_scheduled_jobs_are_asked_about(operator: Client) -> None:
    made = [live("scheduled") for _ in range(101)]
    response = choose(operator, "run_selected", *made, at=JOBS)
    assert 200 == response.status_code
    assert "no longer scheduled by then is left alone" in response.content.decode()


def test_requeue_is_the_named_button_of_a_dead_job(operator: Client) -> None:
    [pk] = ended()
    page = shown(operator, page_of(pk))
    assert '<button type="submit" class="button jobs-named">Requeue</button>' in page
    assert '<button type="submit" class="button jobs-danger">Purge…</button>' in page
    said = banner(operator, pk)
    assert re.fullmatch(r"✕ dead \d\.\d s ago — It is dead after attempt 3 of 3\.", said)
    assert "ValueError: no" in page


@pytest.mark.parametrize(
    ("columns", "first", "later"),
    [
        ({}, "blocks", []),
        ({"paused": True}, "blocks", ["would_block"]),
    ],
)
def test_every_check_has_shape_word_and_colour(
    viewer: Client, columns: dict[str, Any], first: str, later: list[str]
) -> None:
    pk = job()
    Queue.objects.create(name="mail", **columns)
    page = shown(viewer, page_of(pk))
    table = page[page.index(CHECKS) : page.index(HOSTS)]
    found = re.findall(
        r'jobs-badge jobs-(\w+)"><span aria-hidden="true">(.)</span> ([\w ]+)', table
    )
    words = {
        "pass": "✓ pass", "blocks": "✕ blocks", "would_block": "● would block",
        "unknown": "? not known",
    }  # fmt: skip
    for name, shape, word in found:
        assert words[name] == f"{shape} {word}"
    failed = [name for name, _shape, _word in found if name in ("blocks", "would_block")]
    assert [first, *later] == failed[: 1 + len(later)]
    assert "pass" in [name for name, _shape, _word in found]


def test_each_host_says_why_since_when_and_how_that_is_known(viewer: Client) -> None:
    asked = Placement.objects.create(digest="0" * 32, labels=["gpu"])
    pk = job(placement=asked.pk)
    here = serve(name="web-1")
    serve("other", name="web-2", pid=8)
    serve(name="gone", pid=9, seen_at=Now() - timedelta(seconds=40))
    since = Now() - timedelta(seconds=200)
    Skip.objects.create(
        host="web-1", placement=asked.pk, reason="label", detail="gpu", since=since
    )
    page = shown(viewer, page_of(pk))
    table = page[page.index(HOSTS) : page.index("jobs-timeline")]
    rows = {re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", row)) for row in table.split("<tr>")}
    [first] = [row for row in rows if "web-1" in row]
    for text in ("web-1:7", "✓ live", "label", "gpu", "3 m 20 s ago", "recorded"):
        assert text in first
    [second] = [row for row in rows if "web-2" in row]
    for text in ("queue_not_served", "then: label gpu", " live "):
        assert text in second
    [third] = [row for row in rows if "gone:9" in row]
    assert "▲ gone" in third
    assert f'<a href="{WORKERS}{here.pk}/change/">web-1:7</a>' in table
    assert "<code>label</code>" in table


@pytest.mark.parametrize("state", ["ready", "dead"])
def test_what_a_job_asks_of_a_host_is_one_of_its_facts(viewer: Client, state: str) -> None:
    pk = job() if state == "ready" else ended()[0]
    assert "Requires" not in shown(viewer, page_of(pk))
    amounts: Any = {"memory_mb": 6000}
    asked = Placement.objects.create(digest="0" * 32, labels=["gpu"], resources=amounts)
    Job.objects.update(placement=asked.pk)
    fact = '<th scope="row">Requires</th><td>gpu, memory_mb 6000</td>'
    assert fact in shown(viewer, page_of(pk))


def test_a_viewer_of_jobs_alone_sees_the_names_of_workers_without_links(
    staff: Callable[..., Client],
) -> None:
    pk = job()
    serve()
    page = shown(staff("view_job"), page_of(pk))
    assert "web-1:7" in page
    assert WORKERS not in page


@pytest.mark.parametrize("state", ["succeeded", "dead", "cancelled", "dropped", "expired"])
def test_a_final_job_shows_no_live_advice(viewer: Client, state: str) -> None:
    [pk] = ended(1, state)
    serve()
    page = shown(viewer, page_of(pk))
    assert (False, False) == (CHECKS in page, HOSTS in page)
    assert [] == commands(viewer, pk)


def test_a_job_that_runs_says_on_whom(viewer: Client) -> None:
    pk, host = live("running"), serve()
    Lease.objects.create(job_id=pk, worker=host.pk, expires_at="2999-01-01T00:00Z")
    assert banner(viewer, pk).endswith("— It is running on web-1:7.")
    assert CHECKS not in shown(viewer, page_of(pk))


def test_both_tables_stand_below_the_banner_and_above_the_timeline(viewer: Client) -> None:
    page = shown(viewer, page_of(job()))
    parts = ["jobs-sentence", CHECKS, HOSTS, 'id="jobs-timeline"', 'id="jobs-facts"']
    places = [page.index(part) for part in parts]
    assert sorted(places) == places


def test_a_free_worker_is_named(viewer: Client) -> None:
    pk = job()
    serve()
    assert "— Ready: web-1:7 has room for it." in banner(viewer, pk)
    assert "could take it" in shown(viewer, page_of(pk))


def test_an_explanation_that_takes_too_long_is_left_out(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk = job()
    monkeypatch.setattr(bounded, "SECONDS", 0.2)
    monkeypatch.setattr(
        job_page, "explain", lambda *_a, **_o: connection.cursor().execute("SELECT pg_sleep(5)")
    )
    page = shown(viewer, page_of(pk))
    assert "took too long and was stopped" in page
    assert "enqueued" in page
    running = live("running")
    Lease.objects.create(job_id=running, worker=serve().pk, expires_at="2999-01-01T00:00Z")
    assert "unless it is renewed, its lease ends" in shown(viewer, page_of(running))
    assert (False, False) == (CHECKS in page, HOSTS in page)


def test_a_page_that_takes_too_long_is_told(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk = job()
    monkeypatch.setattr(bounded, "SECONDS", 0.05)
    monkeypatch.setattr(
        job_page, "events_of", lambda *_a, **_o: connection.cursor().execute("SELECT pg_sleep(5)")
    )
    response = viewer.get(page_of(pk))
    assert JOBS == goal(response)
    assert "was stopped; nothing was changed" in told(viewer, response)[0]


def test_a_job_that_is_purged_while_its_page_is_made_is_no_error(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk = job()
    real = explain

    def late(*args: Any, **options: Any) -> Any:
        Job.objects.all().delete()
        return real(*args, **options)

    monkeypatch.setattr(job_page, "explain", late)
    assert [f"There is no job {pk}; it may have been purged."] == told(
        viewer, viewer.get(page_of(pk))
    )


def test_resume_is_for_those_who_may(staff: Callable[..., Client]) -> None:
    pk = job()
    pause_mail()
    resume = f"{QUEUES}resume/"
    for more in ((), ("pause_queue",), ("view_queue",)):
        assert resume not in shown(staff("view_job", *more), page_of(pk))
    assert resume in shown(staff("view_job", "view_queue", "pause_queue"), page_of(pk))


def test_the_name_of_the_queue_leads_to_its_page(
    viewer: Client, staff: Callable[..., Client]
) -> None:
    pk = job()
    assert f'<a href="{escape(page_of_queue("mail"))}">mail</a>' in shown(viewer, page_of(pk))
    assert QUEUES not in shown(staff("view_job"), page_of(pk))


def test_an_event_of_a_skip_is_no_part_of_a_jobs_story(viewer: Client) -> None:
    pk = job()
    Event.objects.create(kind="skipped", attempt=0, life=1, placement=1, host="web-1")
    assert "passed over by a host" not in shown(viewer, page_of(pk))
