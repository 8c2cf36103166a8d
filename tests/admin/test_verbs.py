"""Requeue and purge from the lists and from the page of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from django_jobs.admin import confirmation, jobs
from django_jobs.admin.confirmation import Scope
from django_jobs.models import Activity, Event, Job
from django_jobs.operations.requeue import requeue
from tests.admin.pages import (
    ACTIVITY,
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
from tests.operations.desk import job_row, kinds
from tests.operations.ended import ANA, ended, live

pytestmark = pytest.mark.django_db


def confirm(client: Client, verb: str, scope: str, reason: str = "old", at: str = DEAD) -> Any:
    return client.post(f"{at}{verb}/", {"scope": scope, "reason": reason})


@pytest.mark.parametrize("at", [DEAD, JOBS])
def test_what_is_ticked_is_requeued_at_once(operator: Client, at: str) -> None:
    first, second, other = ended(3)
    response = choose(operator, "requeue_selected", first, second, at=at)
    assert at == goal(response)
    assert ["2 jobs requeued."] == told(operator, response)
    assert ["ready", "ready", "dead"] == [job_row(pk).state for pk in (first, second, other)]


def test_the_record_names_the_user_and_the_event_points_to_it(operator: Client) -> None:
    [pk] = ended()
    choose(operator, "requeue_selected", pk)
    activity = Activity.objects.get()
    assert ("staff0", "admin", "requeue", 1, f"job {pk}") == (
        activity.actor_name, activity.via, activity.verb, activity.count, activity.scope,
    )  # fmt: skip
    assert operator.session["_auth_user_id"] == activity.actor_id
    event = Event.objects.get(kind="requeued")
    assert ("staff0", activity.pk) == (event.actor, event.activity_id)


def test_the_filters_of_the_list_are_kept(operator: Client) -> None:
    [pk] = ended(1, queue="mail")
    response = choose(operator, "requeue_selected", pk, at=f"{DEAD}?queue=mail")
    assert f"{DEAD}?queue=mail" == goal(response)


def test_a_mixed_selection_is_told_apart(operator: Client) -> None:
    ids = [*ended(), *ended(1, "succeeded"), live("running"), live("ready"), live("ready")]
    response = choose(operator, "requeue_selected", *ids, at=JOBS)
    expected = "2 jobs requeued. 3 were left alone: 2 ready, 1 running."
    assert [expected] == told(operator, response)


def test_purge_asks_first_and_changes_nothing_by_asking(operator: Client) -> None:
    ids = [*ended(2), live("running")]
    response = choose(operator, "purge_selected", *ids, at=JOBS)
    text = response.content.decode()
    assert 200 == response.status_code
    assert "3 jobs were chosen." in text
    assert "dead" in text
    assert "running" in text
    assert 3 == Job.objects.count()
    assert not Activity.objects.exists()


def test_purge_takes_what_was_shown_with_a_reason(operator: Client) -> None:
    first, second, running = *ended(2), live("running")
    asked = choose(operator, "purge_selected", first, running, at=JOBS)
    late = ended()  # dies while the operator reads
    response = confirm(operator, "purge", scope_in(asked), "gone <b>bad</b>", at=JOBS)
    assert JOBS == goal(response)
    assert ["1 job purged. 1 was left alone: 1 running."] == told(operator, response)
    assert {second, running, *late} == set(Job.objects.values_list("pk", flat=True))
    activity = Activity.objects.get()
    assert ("purge", 1, "gone <b>bad</b>") == (activity.verb, activity.count, activity.reason)
    assert [] == kinds(first)


def test_purge_without_a_reason_asks_again(operator: Client) -> None:
    [pk] = ended()
    asked = choose(operator, "purge_selected", pk)
    for reason in ("", "   ", "x" * 501, "\0"):
        asked = confirm(operator, "purge", scope_in(asked), reason)
        assert 200 == asked.status_code
        assert 'class="errorlist' in asked.content.decode()
        assert Job.objects.filter(pk=pk).exists()
    assert 302 == confirm(operator, "purge", scope_in(asked), "at last").status_code
    assert not Job.objects.exists()


def test_a_job_that_became_live_while_the_page_lay_open_stays(operator: Client) -> None:
    revived, dead = ended(2)
    asked = choose(operator, "purge_selected", revived, dead)
    requeue([revived], actor=ANA, database="default")
    response = confirm(operator, "purge", scope_in(asked))
    assert ["1 job purged. 1 was left alone: 1 ready."] == told(operator, response)
    assert [revived] == list(Job.objects.values_list("pk", flat=True))


def test_a_scope_is_taken_for_its_own_verb_only(operator: Client) -> None:
    [pk] = ended()
    sealed = Scope("requeue", [pk], DEAD, DEAD).sealed()
    assert "nothing was changed" in told(operator, confirm(operator, "purge", sealed))[0]
    assert "dead" == job_row(pk).state


def test_a_scope_cannot_be_made_up_and_grows_old(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    [pk] = ended()
    scope = scope_in(choose(operator, "purge_selected", pk))
    for wrong in ("", "x", f"[{pk}]", scope[:-1], f"{scope}x", scope.swapcase()):
        assert "nothing was changed" in told(operator, confirm(operator, "purge", wrong))[0]
    monkeypatch.setattr(confirmation, "SECONDS", -1)
    assert "nothing was changed" in told(operator, confirm(operator, "purge", scope))[0]
    assert "dead" == job_row(pk).state


def test_a_large_requeue_asks_first_and_keeps_to_what_it_showed(
    operator: Client,
) -> None:
    dead = ended(130, queue="mail")
    ended(1, queue="imports")
    asked = choose(
        operator, "requeue_selected", dead[0], at=f"{DEAD}?queue=mail", select_across="1"
    )
    assert "130 jobs were chosen." in asked.content.decode()
    late = ended(1, queue="mail")
    response = confirm(operator, "requeue", scope_in(asked), reason="")
    assert f"{DEAD}?queue=mail" == goal(response)
    assert 130 == Job.objects.filter(state="ready").count()
    assert "dead" == job_row(late[0]).state


def test_a_selection_across_pages_ends_where_the_list_does(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST", 5)
    dead = ended(8)
    asked = choose(operator, "purge_selected", dead[0], select_across="1")
    assert "5 jobs were chosen." in asked.content.decode()
    confirm(operator, "purge", scope_in(asked))
    assert dead[:3] == list(Job.objects.order_by("pk").values_list("pk", flat=True))


@pytest.mark.parametrize("state", ["dead", "succeeded", "cancelled", "dropped", "expired"])
def test_any_final_job_is_requeued_from_its_page(operator: Client, state: str) -> None:
    [pk] = ended(1, state)
    assert verb_on("requeue", pk) in shown(operator, page_of(pk))
    response = operator.post(verb_on("requeue", pk))
    assert page_of(pk) == goal(response)
    assert ["1 job requeued."] == told(operator, response)
    assert "ready" == job_row(pk).state


@pytest.mark.parametrize("state", ["ready", "running", "scheduled", "waiting", "blocked"])
def test_a_live_job_has_no_buttons_and_obeys_none(operator: Client, state: str) -> None:
    pk = live(state)
    page = shown(operator, page_of(pk))
    assert verb_on("requeue", pk) not in page
    assert verb_on("purge", pk) not in page
    response = operator.post(verb_on("requeue", pk))
    assert [f"0 jobs requeued. 1 was left alone: 1 {state}."] == told(operator, response)
    assert state == job_row(pk).state


def test_one_job_is_purged_from_its_page_after_a_question(operator: Client) -> None:
    [pk] = ended()
    asked = operator.post(verb_on("purge", pk))
    assert f'href="{page_of(pk)}"' in asked.content.decode()  # the way back
    assert "dead" == job_row(pk).state
    response = confirm(operator, "purge", scope_in(asked), at=JOBS)
    assert JOBS == goal(response)
    assert ["1 job purged."] == told(operator, response)


def test_a_verb_on_a_job_that_is_gone_says_so(operator: Client) -> None:
    for pk in (1, 10**18, 10**40):
        response = operator.post(verb_on("requeue", pk))
        assert page_of(pk) == goal(response)
        [first, second] = told(operator, operator.get(goal(response)))
        assert "0 jobs requeued. 1 was left alone: 1 not found." == first
        assert "may have been purged" in second


def test_nothing_ticked_changes_nothing(operator: Client) -> None:
    [pk] = ended()
    assert 302 == choose(operator, "requeue_selected").status_code
    assert 302 == choose(operator, "", pk).status_code
    assert "dead" == job_row(pk).state


@pytest.mark.parametrize("wrong", ["x", "1;2", "", "-1", "1" * 30])
def test_an_id_that_is_none_is_a_bad_request(operator: Client, wrong: str) -> None:
    [pk] = ended()
    assert 400 == choose(operator, "requeue_selected", pk, wrong).status_code
    assert "dead" == job_row(pk).state


def test_the_activity_is_listed(operator: Client) -> None:
    choose(operator, "requeue_selected", *ended(2))
    page = shown(operator, ACTIVITY)
    assert "requeue" in page
    assert "staff0" in page


def test_a_thousand_and_more_ids_fit_in_one_form(operator: Client) -> None:
    dead = ended(1500)
    asked = choose(operator, "purge_selected", dead[0], select_across="1")
    confirm(operator, "purge", scope_in(asked))
    assert not Job.objects.exists()
    assert [1500] == list(Activity.objects.values_list("count", flat=True))


def test_the_number_of_statements_of_an_act_does_not_grow(
    operator: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    dead = ended(100)
    with django_assert_max_num_queries(20):
        choose(operator, "requeue_selected", *dead)
    assert 100 == Job.objects.filter(state="ready").count()
