"""Cancel from the list and from the page of a job: asked about first, and told apart after."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from django_jobs.models import Activity, Event
from django_jobs.operations.cancel import cancel
from django_jobs.states import FINAL, LIVE
from tests.admin.pages import (
    DEAD,
    JOBS,
    choose,
    goal,
    page_of,
    scope_in,
    shown,
    told,
    verb_on,
)
from tests.operations.desk import job_row, jobs, kinds
from tests.operations.ended import ANA, ended, live

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_is_cancelled_from_its_page_after_a_question(
    operator: Client, state: str
) -> None:
    pk = live(state)
    assert verb_on("cancel", pk) in shown(operator, page_of(pk))
    asked = operator.post(verb_on("cancel", pk))
    assert "1 job was chosen." in asked.content.decode()
    assert state == job_row(pk).state
    response = operator.post(f"{JOBS}cancel/", {"scope": scope_in(asked), "reason": "sent twice"})
    assert page_of(pk) == goal(response)
    words = "1 running job is asked to end." if state == "running" else "1 job cancelled."
    assert [words] == told(operator, response)
    expected = "running" if state == "running" else "cancelled"
    assert expected == job_row(pk).state
    activity = Activity.objects.get()
    assert ("staff0", "admin", "cancel", "sent twice") == (
        activity.actor_name, activity.via, activity.verb, activity.reason,
    )  # fmt: skip


@pytest.mark.parametrize("reason", ["", "   ", "\0"])
def test_without_a_reason_it_is_asked_again(operator: Client, reason: str) -> None:
    pk = live("ready")
    asked = operator.post(verb_on("cancel", pk))
    again = operator.post(f"{JOBS}cancel/", {"scope": scope_in(asked), "reason": reason})
    assert 'class="errorlist' in again.content.decode()
    assert "ready" == job_row(pk).state


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_job_that_has_ended_has_no_such_button_and_does_not_obey(
    operator: Client, state: str
) -> None:
    [pk] = ended(1, state)
    assert verb_on("cancel", pk) not in shown(operator, page_of(pk))
    asked = operator.post(verb_on("cancel", pk))
    response = operator.post(f"{JOBS}cancel/", {"scope": scope_in(asked), "reason": "x"})
    assert [f"0 jobs cancelled. 1 was left alone: 1 {state}."] == told(operator, response)
    assert state == job_row(pk).state


def test_a_mixed_choice_is_told_apart(operator: Client) -> None:
    ids = [*jobs(2), live("running"), live("running"), *ended()]
    asked = choose(operator, "cancel_selected", *ids, at=JOBS)
    late = live("ready")  # enqueued while the operator reads
    response = operator.post(f"{JOBS}cancel/", {"scope": scope_in(asked), "reason": "x"})
    words = "2 jobs cancelled. 2 running jobs are asked to end. 1 was left alone: 1 dead."
    assert [words] == told(operator, response)
    assert "ready" == job_row(late).state


def test_the_way_out_of_the_page_has_another_name_than_the_verb(operator: Client) -> None:
    page = operator.post(verb_on("cancel", live("ready"))).content.decode()
    assert 'value="Cancel"' in page
    assert ">Back</a>" in page
    assert ">Cancel</a>" not in page


def test_dead_letters_have_no_such_action(operator: Client) -> None:
    ended()
    assert "cancel_selected" not in shown(operator, DEAD)


def test_the_page_of_a_job_that_is_asked_says_by_whom_why_and_since_when(
    operator: Client,
) -> None:
    pk = live("running")
    cancel([pk], actor=ANA, reason="wrong <b>customer</b>", database="default")
    page = shown(operator, page_of(pk))
    assert "Asked to end" in page
    assert "asked to end" in page
    assert "ana" in page
    assert "wrong &lt;b&gt;customer&lt;/b&gt;" in page


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("retry", "its attempt failed"),
        ("drain", "its worker was stopping"),
        ("worker_lost", "its worker was lost"),
    ],
)
def test_what_it_won_over_is_said_in_words(operator: Client, reason: str, words: str) -> None:
    [pk] = ended(1, "cancelled")
    Event.objects.filter(job_id=pk).update(
        data={"reason": reason}, worker="00000000-0000-0000-0000-000000000001"
    )
    assert words in shown(operator, page_of(pk))


def test_the_words_of_a_person_are_no_code(operator: Client) -> None:
    [pk] = jobs()
    cancel([pk], actor=ANA, reason="limit", database="default")
    page = shown(operator, page_of(pk))
    assert ["cancelled"] == kinds(pk)
    assert "its limit was full" not in page


def test_a_time_that_python_cannot_hold_does_not_break_the_page(operator: Client) -> None:
    pk = live("running")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET cancel_asked_at = 'infinity'")
    assert "Asked to end" in shown(operator, page_of(pk))
