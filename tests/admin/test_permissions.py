"""Who may do what: judged on the server, whatever the page shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from django_jobs.admin.confirmation import Scope
from django_jobs.models import Activity, Event, Job, Queue
from tests.admin.pages import (
    ACTIVITY,
    DEAD,
    JOBS,
    LISTS,
    QUEUES,
    choose,
    goal,
    page_of,
    page_of_queue,
    shown,
    verb_on,
)
from tests.operations.desk import job_row
from tests.operations.ended import ended, live

pytestmark = pytest.mark.django_db

VERBS = ("requeue", "purge", "run", "cancel")
ON_QUEUES = ("pause", "resume")
MAIL = {"backend": "default", "queue": "mail"}


def everything() -> list[Any]:
    """All rows as they are."""
    models = (Job, Event, Activity, Queue)
    return [list(model.objects.order_by("pk").values()) for model in models]


@pytest.fixture
def attempts() -> list[tuple[str, dict[str, Any]]]:
    """Every POST that changes something for one who may."""
    ids = [*ended(), live("scheduled")]
    pk = ids[0]
    tick = {"_selected_action": ids, "index": "0"}
    Queue.objects.create(name="photos", paused=True)
    return [
        *((at, {"action": f"{verb}_selected", **tick}) for verb in VERBS for at in (DEAD, JOBS)),
        *((verb_on(verb, pk), {}) for verb in VERBS for pk in ids),
        *(
            (f"{at}{verb}/", {"scope": Scope(verb, ids, at, at).sealed(), "reason": "x"})
            for verb in VERBS
            for at in (DEAD, JOBS)
        ),
        (f"{QUEUES}pause/", MAIL),
        (f"{QUEUES}pause/", {**MAIL, "asked": "1", "reason": "x"}),
        (f"{QUEUES}resume/", {**MAIL, "queue": "photos"}),
        (f"{DEAD}{pk}/requeue/", {}),
        (page_of(pk), {"state": "ready"}),
        (f"{JOBS}{pk}/delete/", {"post": "yes"}),
        (f"{JOBS}add/", {"task": "x"}),
    ]


def test_a_viewer_is_refused_every_verb_and_no_row_changes(
    viewer: Client, attempts: list[tuple[str, dict[str, Any]]]
) -> None:
    before = everything()
    for address, data in attempts:
        assert 403 == viewer.post(address, data).status_code, address
    assert before == everything()


def test_one_who_may_act_but_not_look_is_refused(
    staff: Callable[..., Client], attempts: list[tuple[str, dict[str, Any]]]
) -> None:
    blind = staff("run_job", "cancel_job", "requeue_job", "purge_job", "pause_queue")
    before = everything()
    for address, data in attempts:
        assert 403 == blind.post(address, data).status_code, address
    assert before == everything()


def test_each_verb_asks_for_its_own_permission(staff: Callable[..., Client]) -> None:
    first, second = ended(2)
    for verb, other in (("requeue", "purge"), ("purge", "requeue")):
        client = staff("view_job", f"{verb}_job")
        assert 403 == choose(client, f"{other}_selected", first).status_code
        assert 403 == client.post(verb_on(other, first)).status_code
        page = shown(client, page_of(first))
        assert verb_on(verb, first) in page
        assert verb_on(other, first) not in page
        assert f"{verb}_selected" in shown(client, DEAD)
        assert f"{other}_selected" not in shown(client, DEAD)
    assert ["dead", "dead"] == [job_row(pk).state for pk in (first, second)]


def test_to_run_a_scheduled_job_now_asks_for_its_own_permission(
    staff: Callable[..., Client],
) -> None:
    pk = live("scheduled")
    other = staff("view_job", "requeue_job", "purge_job")
    assert verb_on("run", pk) not in shown(other, page_of(pk))
    assert "run_selected" not in shown(other, JOBS)
    assert 403 == other.post(verb_on("run", pk)).status_code
    assert 403 == choose(other, "run_selected", pk, at=JOBS).status_code
    assert "scheduled" == job_row(pk).state
    own = staff("view_job", "run_job")
    assert verb_on("run", pk) in shown(own, page_of(pk))
    own.post(verb_on("run", pk))
    assert "ready" == job_row(pk).state


def test_to_cancel_a_live_job_asks_for_its_own_permission(staff: Callable[..., Client]) -> None:
    pk = live("ready")
    other = staff("view_job", "run_job", "requeue_job", "purge_job")
    assert verb_on("cancel", pk) not in shown(other, page_of(pk))
    assert "cancel_selected" not in shown(other, JOBS)
    assert 403 == other.post(verb_on("cancel", pk)).status_code
    assert 403 == choose(other, "cancel_selected", pk, at=JOBS).status_code
    sealed = Scope("cancel", [pk], JOBS, JOBS).sealed()
    assert 403 == other.post(f"{JOBS}cancel/", {"scope": sealed, "reason": "x"}).status_code
    assert "ready" == job_row(pk).state
    own = staff("view_job", "cancel_job")
    assert verb_on("cancel", pk) in shown(own, page_of(pk))
    own.post(f"{JOBS}cancel/", {"scope": sealed, "reason": "x"})
    assert "cancelled" == job_row(pk).state


@pytest.mark.parametrize("verb", ON_QUEUES)
def test_to_pause_and_resume_asks_for_its_own_permission(
    staff: Callable[..., Client], verb: str
) -> None:
    Queue.objects.create(name="mail", paused=verb == "resume")
    address, data = f"{QUEUES}{verb}/", {**MAIL, "asked": "1", "reason": "x"}
    pages = (QUEUES, page_of_queue("mail"))
    for other in (staff("view_queue"), staff("view_queue", "view_job", "run_job", "purge_job")):
        assert [False, False] == [address in shown(other, page) for page in pages]
        assert 403 == other.post(address, data).status_code
    own = staff("view_queue", "pause_queue")
    assert [True, True] == [address in shown(own, page) for page in pages]
    own.post(address, data)
    assert (verb == "pause") == Queue.objects.get(name="mail").paused


def test_the_number_of_ready_jobs_is_a_link_for_those_who_may_follow_it(
    staff: Callable[..., Client],
) -> None:
    for page in (QUEUES, page_of_queue("mail")):
        assert f"{JOBS}?state=ready" not in shown(staff("view_queue"), page)
        assert f"{JOBS}?state=ready" in shown(staff("view_queue", "view_job"), page)


def test_a_viewer_sees_no_buttons(viewer: Client) -> None:
    [pk] = ended()
    for each in (pk, live("scheduled")):
        page = shown(viewer, page_of(each))
        assert not [verb for verb in VERBS if verb_on(verb, each) in page]
    Queue.objects.create(name="photos", paused=True)
    for address in (QUEUES, page_of_queue("mail"), page_of_queue("photos")):
        assert not [verb for verb in ON_QUEUES if f"{QUEUES}{verb}/" in shown(viewer, address)]
    for address in (JOBS, DEAD):
        assert 'name="action"' not in shown(viewer, address)


def test_an_address_that_acts_does_nothing_on_get(operator: Client) -> None:
    [pk] = ended()
    before = everything()
    for address in (
        *(verb_on(v, pk) for v in VERBS),
        *(f"{at}{v}/" for v in VERBS for at in LISTS[:2]),
        *(f"{QUEUES}{v}/" for v in ON_QUEUES),
    ):
        for method in ("get", "head", "put", "delete", "options"):
            assert 405 == getattr(operator, method)(address).status_code, address
    operator.get(f"{DEAD}?action=requeue_selected&_selected_action={pk}&index=0")
    assert before == everything()


@pytest.mark.parametrize(
    "address",
    [
        verb_on("requeue", 1), verb_on("run", 1), f"{DEAD}purge/", DEAD, f"{QUEUES}pause/",
        f"{QUEUES}resume/",
    ],
)  # fmt: skip
def test_a_post_without_the_token_is_refused(staff: Callable[..., Client], address: str) -> None:
    able = ("view_job", "view_queue", "run_job", "requeue_job", "purge_job", "pause_queue")
    client = staff(*able, enforce_csrf_checks=True)
    assert 403 == client.post(address, {"action": "requeue_selected"}).status_code


@pytest.mark.parametrize(
    "address",
    [
        *LISTS, verb_on("requeue", 1), page_of(1), page_of_queue("mail"), f"{QUEUES}pause/",
        f"{QUEUES}resume/",
    ],
)  # fmt: skip
def test_a_stranger_is_sent_to_the_login(client: Client, address: str) -> None:
    for response in (client.get(address), client.post(address)):
        assert goal(response).startswith("/admin/login/")


@pytest.mark.parametrize("address", LISTS)
def test_staff_without_a_permission_sees_nothing(
    staff: Callable[..., Client], address: str
) -> None:
    nobody = staff()
    assert 403 == nobody.get(address).status_code
    assert address not in shown(nobody, "/admin/")


def test_the_page_of_a_job_asks_for_the_permission_to_view_jobs(
    staff: Callable[..., Client],
) -> None:
    [pk] = ended()
    client = staff("view_worker", "requeue_job")
    assert 403 == client.get(page_of(pk)).status_code


def test_the_page_of_a_queue_asks_for_the_permission_to_view_queues(
    staff: Callable[..., Client],
) -> None:
    row = Queue.objects.create(name="mail")
    client = staff("view_job", "pause_queue")
    for address in (page_of_queue("mail"), f"{QUEUES}{row.pk}/change/"):
        assert 403 == client.get(address).status_code


def test_the_page_of_a_queue_is_only_looked_at(operator: Client) -> None:
    assert 405 == operator.post(page_of_queue("mail"), {}).status_code


def test_who_may_view_jobs_may_view_dead_letters(staff: Callable[..., Client]) -> None:
    client = staff("view_job")
    index = shown(client, "/admin/")
    assert (True, True, False) == (JOBS in index, DEAD in index, QUEUES in index)
    assert not Permission.objects.filter(codename__contains="deadletter").exists()


def test_not_even_a_superuser_edits_a_row_by_form(admin_client: Client) -> None:
    [pk] = ended()
    queue = Queue.objects.create(name="mail")
    pages = [
        f"{JOBS}add/", f"{JOBS}{pk}/delete/", f"{QUEUES}add/", f"{QUEUES}{queue.pk}/delete/",
        f"{ACTIVITY}add/",
    ]  # fmt: skip
    for address in pages:
        assert 403 == admin_client.get(address).status_code
        assert 403 == admin_client.post(address, {"post": "yes"}).status_code
    assert 403 == admin_client.post(f"{QUEUES}{queue.pk}/change/", {"name": "x"}).status_code
    assert "mail" == Queue.objects.get().name
    assert "delete_selected" not in shown(admin_client, JOBS)
    assert 403 == choose(admin_client, "delete_selected", pk, at=JOBS).status_code


def test_a_link_to_the_activity_is_for_those_who_may_follow_it(
    staff: Callable[..., Client],
) -> None:
    client = staff("view_job", "requeue_job")
    [pk] = ended()
    client.post(verb_on("requeue", pk))
    act = Activity.objects.get().pk
    assert f"{ACTIVITY}{act}/change/" not in shown(client, page_of(pk))
    assert f"{ACTIVITY}{act}/change/" in shown(staff("view_job", "view_activity"), page_of(pk))
