"""The page of limits, the verb on them, and what a job's page says of limits and kin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from html import escape, unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_jobs.admin.limit_figures import COUNTED, figures_of
from django_jobs.exceptions import Refused
from django_jobs.models import Activity, Dependency, Event, Job, Lease, Limit, Worker
from django_jobs.operations.set_limit import set_limit
from tests.admin.pages import ACTIVITY, LIMITS, goal, page_of, shown, told
from tests.operations.ended import ANA
from tests.worlds import add, register

pytestmark = pytest.mark.django_db

SIZE = f"{LIMITS}size/"
KEY = "feeds:acme"
XSS = "<img src=x onerror=alert(1)>"


def limit(key: str = KEY, **fields: Any) -> Limit:
    return Limit.objects.create(key=key, **{"size": 2, "in_use": 1, **fields})


def holder(key: str = KEY, *, worker: Any = None) -> int:
    [job] = add("mail", state="running", attempt=1, limit_key=key)
    Lease.objects.create(
        job_id=job, worker=worker or register(name="vm"), limit_key=key,
        expires_at=Now() + timedelta(seconds=60),
    )  # fmt: skip
    return job


def blocked(count: int = 1, key: str = KEY, **fields: Any) -> list[int]:
    return add("mail", count, state="blocked", limit_key=key, **fields)


def states() -> list[str]:
    return list(Job.objects.order_by("pk").values_list("state", flat=True))


def asked(size: str, **more: str) -> dict[str, str]:
    return {"key": KEY, "asked": "1", "size": size, "reason": "bad feed", **more}


# the list


def test_the_list_tells_who_holds_a_key_and_who_waits(viewer: Client) -> None:
    limit()
    limit("other", in_use=0, size=None)
    job = holder()
    blocked(3, enqueued_at=Now() - timedelta(seconds=120))
    page = shown(viewer, LIMITS)
    assert f'<a href="{page_of(job)}">{job}</a> tests.tasks.ok' in page
    for text in ("1/2", "vm:1", "lease ends", "in 59 s", "enqueued 2 m 00 s ago", "nobody"):
        assert text in page, text
    for count in (3, 0):
        assert f'<td class="field-waiting">{count}<' in page


def test_a_holder_is_named_without_links_to_those_who_may_not_follow(
    staff: Callable[..., Client],
) -> None:
    limit()
    job = holder()
    page = shown(staff("view_limit"), LIMITS)
    assert f"{job} tests.tasks.ok" in page
    assert page_of(job) not in page
    assert "/worker/" not in page


def test_a_size_of_an_operator_is_told_from_the_jobs(viewer: Client) -> None:
    limit(override=7)
    page = shown(viewer, LIMITS)
    assert "1/7" in page
    assert "set by an operator; jobs say 2" in page


def test_of_many_holders_five_are_named(viewer: Client) -> None:
    limit()
    vm = register(name="vm")
    jobs = [holder(worker=vm) for _ in range(7)]
    page = shown(viewer, LIMITS)
    assert [True] * 5 + [False] * 2 == [page_of(job) in page for job in jobs]
    assert "… and 2 more" in page


def test_waiters_are_counted_to_a_bound() -> None:
    blocked(COUNTED + 3)
    assert ("100+", COUNTED + 1) == (
        figures_of([KEY], database="default")[KEY].waits,
        figures_of([KEY], database="default")[KEY].waiting,
    )


def test_the_list_takes_the_same_statements_however_many_limits(viewer: Client) -> None:
    limit()
    with CaptureQueriesContext(connection) as few:
        shown(viewer, LIMITS)
    for number in range(5):
        limit(f"key {number}")
        holder(f"key {number}")
        blocked(2, key=f"key {number}")
    with CaptureQueriesContext(connection) as many:
        shown(viewer, LIMITS)
    assert len(few) == len(many)


def test_a_search_finds_one_key(viewer: Client) -> None:
    limit("a b&c")
    limit("a b")
    page = shown(viewer, f"{LIMITS}?{urlencode({'q': 'a b&c'})}")
    assert escape("a b&c") in page
    assert '<th class="field-name">a b</th>' not in page
    found = viewer.get(f"{LIMITS}?q=a").context["cl"]
    assert [] == found.result_list
    shown(viewer, f"{LIMITS}?q=%00")


@pytest.mark.parametrize(("use", "keys"), [("held", ["a"]), ("set", ["b"]), ("x", ["a", "b"])])
def test_keys_in_use_and_those_that_were_set_can_be_told(
    viewer: Client, use: str, keys: list[str]
) -> None:
    limit("a")
    limit("b", in_use=0, override=1)
    found = viewer.get(f"{LIMITS}?use={use}").context["cl"].result_list
    assert keys == [each.key for each in found]


def test_the_row_of_a_limit_leads_to_the_list(viewer: Client) -> None:
    limit("a/b_c")
    page = viewer.get(f"{LIMITS}a_2Fb_5Fc/change/")
    assert f"{LIMITS}?q=a%2Fb_c" == goal(page)
    assert LIMITS == goal(viewer.get(f"{LIMITS}nobody/change/"))
    assert 403 == viewer.post(f"{LIMITS}a_2Fb_5Fc/change/").status_code


def test_everything_is_escaped(operator: Client) -> None:
    limit(XSS)
    job = holder(XSS, worker=register(name=XSS))
    Job.objects.filter(pk=job).update(task=XSS, unique_key=XSS)
    waits = blocked(key=XSS)[0]
    Dependency.objects.create(parent=job, child=waits)
    pages = [shown(operator, each) for each in (LIMITS, page_of(job), page_of(waits))]
    pages.append(operator.post(SIZE, {"key": XSS}).content.decode())
    for page in pages:
        assert XSS not in page
        assert escape(XSS) in page


# the verb


def test_a_change_asks_for_size_and_reason_first(operator: Client) -> None:
    limit(override=5)
    job = holder()
    blocked(2)
    assert f'formaction="{SIZE}" name="key" value="{KEY}"' in shown(operator, LIMITS)
    page = operator.post(SIZE, {"key": KEY}).content.decode()
    for text in (KEY, "1/5", page_of(job), 'value="5"', "Jobs that run go on"):
        assert text in page, text
    assert "errorlist" not in page
    assert not Activity.objects.exists()
    for size, reason in (("3", ""), ("3", "  "), ("-1", "x"), ("x", "x"), ("9" * 30, "x")):
        page = operator.post(SIZE, asked(size, reason=reason)).content.decode()
        assert "errorlist" in page
    assert 5 == Limit.objects.get().override
    assert not Activity.objects.exists()


@pytest.mark.parametrize(
    ("size", "stored", "text", "scope"),
    [
        ("7", 7, "The limit feeds:acme is 7 now.", "limit feeds:acme to 7"),
        ("0", 0, "The limit feeds:acme is 0 now.", "limit feeds:acme to 0"),
        (
            "", None, "The limit feeds:acme is what its jobs say again.",
            "limit feeds:acme to what its jobs say",
        ),
    ],
)  # fmt: skip
def test_a_change_keeps_who_and_why(
    operator: Client, size: str, stored: int | None, text: str, scope: str
) -> None:
    limit(override=5)
    response = operator.post(SIZE, asked(size))
    assert f"{LIMITS}?q=feeds%3Aacme" == goal(response)
    assert [text] == told(operator, response)
    row = Limit.objects.get()
    assert (2, stored, 1) == (row.size, row.override, row.in_use)
    act = Activity.objects.get()
    assert ("set_limit", "staff0", "admin", scope, "bad feed") == (
        act.verb, act.actor_name, act.via, act.scope, act.reason,
    )  # fmt: skip
    assert "1 job" not in shown(operator, ACTIVITY)


def test_a_key_that_nobody_knows_is_refused(operator: Client) -> None:
    for key in ("", "nobody", "\0"):
        response = operator.post(SIZE, {**asked("1"), "key": key})
        assert ["There is no such limit."] == told(operator, response)
    assert not Activity.objects.exists()


@pytest.mark.parametrize(
    "permissions", [("view_limit",), ("change_size_limit",), ("view_limit", "purge_job")]
)
def test_a_change_asks_for_its_own_permission(
    staff: Callable[..., Client], permissions: tuple[str, ...]
) -> None:
    limit()
    client = staff(*permissions)
    assert 403 == client.post(SIZE, {"key": KEY}).status_code
    assert 403 == client.post(SIZE, asked("7")).status_code
    if "view_limit" in permissions:
        assert SIZE not in shown(client, LIMITS)
    assert Limit.objects.get().override is None


def test_a_change_is_a_post(operator: Client) -> None:
    assert 405 == operator.get(SIZE).status_code


def test_a_change_is_protected_against_forgery(staff: Callable[..., Client]) -> None:
    limit()
    client = staff("view_limit", "change_size_limit", enforce_csrf_checks=True)
    assert 403 == client.post(SIZE, asked("7")).status_code


# the operation


def change(size: Any, reason: str = "bad feed", key: str = KEY) -> None:
    set_limit(key, size, actor=ANA, reason=reason, database="default")


@pytest.mark.django_db(transaction=True)
def test_jobs_that_have_room_now_are_ready_at_once() -> None:
    limit(size=1)
    blocked(4)
    change(3)
    assert ["ready", "ready", "blocked", "blocked"] == states()


@pytest.mark.django_db(transaction=True)
def test_a_smaller_size_wakes_nobody() -> None:
    limit(size=3, override=5, in_use=3)
    blocked(2)
    change(None)
    change(0)
    assert ["blocked", "blocked"] == states()


@pytest.mark.django_db(transaction=True)
def test_a_sleeper_is_rung() -> None:
    limit(size=1)
    blocked()
    register(idle=True)
    with connection.cursor() as cursor:
        cursor.execute("LISTEN django_jobs")
    change(2)
    raw: Any = connection.connection
    assert ["mail default"] == [each.payload for each in raw.notifies(timeout=5, stop_after=1)]
    with connection.cursor() as cursor:
        cursor.execute("UNLISTEN *")
    assert 1 == Worker.objects.count()


@pytest.mark.parametrize("size", [-1, 1.5, "3", True, 10**9])
def test_a_size_that_cannot_be_one_is_refused(size: Any) -> None:
    limit()
    with pytest.raises(Refused, match="must be a whole number from 0 to"):
        change(size)
    assert Limit.objects.get().override is None


def test_a_change_without_a_reason_or_of_no_limit_is_refused() -> None:
    limit()
    with pytest.raises(Refused, match="Say why"):
        change(3, reason=" ")
    for key in ("nobody", "\0"):
        with pytest.raises(Refused, match="has been claimed yet"):
            change(3, key=key)
    assert not Activity.objects.exists()


# the page of a job


def test_the_page_of_a_job_names_its_limit_key_and_deadline(
    viewer: Client, staff: Callable[..., Client]
) -> None:
    [job] = blocked(unique_key="invoice:7", expires_at=Now() + timedelta(hours=1))
    page = shown(viewer, page_of(job))
    assert f'<a href="{LIMITS}?q=feeds%3Aacme">{KEY}</a>' in page
    assert "invoice:7" in page
    assert "in 59 m 59 s" in page
    page = shown(staff("view_job"), page_of(job))
    assert KEY in page
    assert LIMITS not in page


def test_the_deadline_of_a_job_that_has_started_is_not_of_interest(viewer: Client) -> None:
    [job] = add(
        "mail", state="running", attempt=1, started_at=Now(), expires_at=Now() + timedelta(hours=1)
    )
    assert "Expires" not in shown(viewer, page_of(job))


def test_parents_and_children_are_links_with_states(viewer: Client) -> None:
    [dead] = add("mail", state="dead", finished_at=Now())
    [job] = add("mail", state="waiting")
    children = add("mail", 23, state="waiting")
    gone = 10**6
    Dependency.objects.bulk_create(
        [
            Dependency(parent=dead, child=job),
            Dependency(parent=gone, child=job),
            *(Dependency(parent=job, child=child) for child in children),
        ]
    )
    page = unescape(shown(viewer, page_of(job)))
    assert f'<a href="{page_of(dead)}">{dead}</a> tests.tasks.ok' in page
    assert f"<li>{gone}  is not there any more</li>" in page
    assert [True] * 20 + [False] * 3 == [page_of(child) in page for child in children]
    assert "… and 3 more." in page
    assert "This job will never run unless it is requeued." in page
    page = shown(viewer, page_of(children[0]))
    assert ("Parents" in page, "Children" in page) == (True, False)


def test_more_kin_than_are_counted_are_said_to_be_more(viewer: Client) -> None:
    [job] = add("mail")
    children = add("mail", 1005, state="waiting")
    Dependency.objects.bulk_create(Dependency(parent=job, child=child) for child in children)
    assert "… and more than 980 others." in shown(viewer, page_of(job))


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("cancelled", {"reason": "limit"}, "its limit was full"),
        ("cancelled", {"reason": "parent"}, "a job that it waited for did not succeed"),
        ("cancelled", {"reason": "replaced"}, "a newer job of the same key took its place"),
        ("expired", {"reason": "late"}, "it had not started in time"),
    ],
)
def test_an_end_that_nobody_asked_for_is_told_in_words(
    viewer: Client, kind: str, data: Any, words: str
) -> None:
    [job] = add("mail", state=kind, finished_at=Now())
    event = Event.objects.create(job_id=job, kind=kind, attempt=0, life=1, data=data)
    assert words in shown(viewer, page_of(job))
    Event.objects.filter(pk=event.pk).update(actor="ana")
    assert (kind == "expired") == (words in shown(viewer, page_of(job)))
