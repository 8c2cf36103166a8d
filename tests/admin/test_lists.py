"""The lists: bounded, in one order, with a fixed number of statements."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_jobs.admin import bounded
from django_jobs.admin.cells import NBSP
from django_jobs.models import Activity, Job, Lease, Placement, Queue, Skip, Worker
from django_jobs.operations.requeue import requeue
from django_jobs.states import JobState
from tests.admin.pages import (
    ACTIVITY,
    DEAD,
    JOBS,
    LISTS,
    QUEUES,
    SKIPS,
    WORKERS,
    goal,
    shown,
    told,
)
from tests.operations.ended import ANA, ended, live

pytestmark = pytest.mark.django_db

BIG = ('"args"', '"kwargs"', '"metadata"', '"result"', '"worker_ids"', '"error"')


def rows(client: Client, address: str) -> list[int]:
    return [row.pk for row in client.get(address).context["cl"].result_list]


def some_of_everything(count: int) -> None:
    first = Queue.objects.count()
    for number in range(first, first + count):
        ended(2, queue=f"q{number}", kwargs={"n": number})
        running = live("running")
        worker = Worker.objects.create(
            id=uuid4(), backend="default", name="w", pid=number, version="1", capacity=6
        )
        Lease.objects.create(job_id=running, worker=worker.pk, expires_at=Now())
        Queue.objects.create(name=f"q{number}")
        asked = Placement.objects.create(digest=f"{number:032}", host=f"web-{number}")
        Job.objects.create(task="a.b", placement=asked.pk)
        Skip.objects.create(host="w", placement=asked.pk, reason="host", detail="web")
        Activity.objects.create(actor_name="ana", via="admin", verb="purge", scope="", count=1)


@pytest.mark.parametrize("address", LISTS)
def test_every_list_is_there(viewer: Client, address: str) -> None:
    shown(viewer, address)
    some_of_everything(1)
    shown(viewer, address)


def queries(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as caught:
        shown(client, address)
    return [query["sql"] for query in caught.captured_queries]


@pytest.mark.parametrize(
    ("address", "expected"),
    # session and user; the time limit, set and unset, in a savepoint of this test; what is named
    [
        (JOBS, 2 + 4 + 3),  # queue names, count, rows
        (DEAD, 2 + 4 + 4),  # queue names, tasks, count, rows
        (WORKERS, 2 + 4 + 2),  # count, rows
        (ACTIVITY, 2 + 4 + 2),  # count, rows
        (SKIPS, 2 + 4 + 2 + 2),  # count, rows; placements, ready jobs
        (QUEUES, 2 + 4 + 1 + 4 + 2),  # all figures at once; the rows that Django's list reads
    ],
)
def test_a_list_costs_the_same_number_of_statements_for_any_number_of_rows(
    admin_client: Client, address: str, expected: int, django_assert_num_queries: Any
) -> None:
    some_of_everything(1)
    with django_assert_num_queries(expected):
        shown(admin_client, address)
    some_of_everything(20)
    with django_assert_num_queries(expected):
        shown(admin_client, address)


@pytest.mark.parametrize("address", [JOBS, DEAD])
def test_a_list_reads_no_large_column(admin_client: Client, address: str) -> None:
    ended(1, args=["x" * 100_000], error="y" * 100_000, result="z" * 100_000)
    for sql in queries(admin_client, address):
        read = sql.replace('LEFT("django_jobs_job"."error", 240)', "")
        assert not [name for name in BIG if name in read], sql
    assert len(shown(admin_client, address)) < 50_000


@pytest.mark.parametrize("address", [JOBS, DEAD, WORKERS, SKIPS, ACTIVITY])
def test_a_list_counts_no_further_than_it_can_be_paged(
    admin_client: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MOST", 3)
    some_of_everything(5)
    counts = [sql for sql in queries(admin_client, address) if sql.startswith("SELECT COUNT(")]
    assert [True] == ["LIMIT 4)" in sql for sql in counts]
    assert "10k+" in shown(admin_client, address)


def test_a_list_can_be_paged_through_as_far_as_it_counts(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MOST", 150)
    made = ended(160)
    assert made[:-101:-1] == rows(admin_client, JOBS)
    assert made[-101:-151:-1] == rows(admin_client, f"{JOBS}?p=2")
    assert 302 == admin_client.get(f"{JOBS}?p=3").status_code


def test_fewer_rows_are_counted_exactly(admin_client: Client) -> None:
    ended(2)
    assert "2 rows" in shown(admin_client, DEAD)
    Job.objects.all()[:1].get().delete()
    assert "1 row<" in shown(admin_client, DEAD)


def test_the_order_is_that_of_the_ids_whatever_the_address_asks_for(admin_client: Client) -> None:
    made = ended(3)
    for name in "bca":
        Activity.objects.create(actor_name=name, via="cli", verb="purge", scope="", count=1)
    acts = list(Activity.objects.order_by("-pk").values_list("pk", flat=True))
    for order in ("1", "3", "-3", "-4.2", "99", "x"):
        assert made[::-1] == rows(admin_client, f"{JOBS}?o={order}")
        assert acts == rows(admin_client, f"{ACTIVITY}?o={order}")


def test_states_and_queues_are_filters(admin_client: Client) -> None:
    dead, done = *ended(1, queue="mail"), *ended(1, "succeeded", queue="imports")
    running, ready = live("running"), live("ready")
    Lease.objects.create(job_id=running, worker=uuid4(), expires_at=Now())
    assert [dead] == rows(admin_client, f"{JOBS}?state=dead")
    assert [done] == rows(admin_client, f"{JOBS}?queue=imports")
    assert [running] == rows(admin_client, f"{JOBS}?state=running")
    assert [ready] == rows(admin_client, f"{JOBS}?state=ready&queue=default")
    assert [] == rows(admin_client, f"{JOBS}?state=dead&queue=imports")


def test_dead_letters_are_the_dead_jobs(admin_client: Client) -> None:
    live("ready")
    ended(1, "succeeded")
    mail, boom = *ended(1, queue="mail", task="shop.tasks.send"), *ended(1)
    assert [boom, mail] == rows(admin_client, DEAD)
    assert [mail] == rows(admin_client, f"{DEAD}?queue=mail")
    assert [mail] == rows(admin_client, f"{DEAD}?task=shop.tasks.send")
    assert "?task=shop.tasks.send" in shown(admin_client, DEAD)


def test_queues_that_only_jobs_name_can_be_filtered_by(admin_client: Client) -> None:
    ended(1, queue="old")
    Job.objects.create(task="a.b", queue="new")
    Queue.objects.create(name="said")
    page = shown(admin_client, JOBS)
    for name in ("old", "new", "said", "photos"):  # the last by the settings
        assert f"?queue={name}" in page


@pytest.mark.parametrize("value", ["zzz", "%00", "'", "%25_", "%ff", '"><img onerror>'])
@pytest.mark.parametrize("name", ["state", "queue"])
def test_no_value_of_a_filter_is_an_error(admin_client: Client, name: str, value: str) -> None:
    ended()
    assert [] == rows(admin_client, f"{JOBS}?{name}={value}")


@pytest.mark.parametrize("lookup", ["args__contains=x", "task__regex=x", "id__gt=1", "nonsense=1"])
def test_nothing_else_can_be_filtered_by(admin_client: Client, lookup: str) -> None:
    assert 400 == admin_client.get(f"{JOBS}?{lookup}").status_code


def test_a_job_is_found_by_its_id(admin_client: Client) -> None:
    wanted, _other = ended(2)
    for term in (str(wanted), f" {wanted} ", f"%23{wanted}"):
        assert [wanted] == rows(admin_client, f"{JOBS}?q={term}")


@pytest.mark.parametrize(
    "term", ["x", "0", "-1", "1.5", "%25", "_", "'", "%00", "9" * 19, "9" * 5000, "\u0661", "1 2"]
)
def test_no_search_is_an_error(admin_client: Client, term: str) -> None:
    ended()
    found = rows(admin_client, f"{JOBS}?q={term}")
    assert [] == found or term == "%00"  # Django drops a term with a NUL, and says so


def test_a_list_that_takes_too_long_is_stopped_and_told(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.05)
    monkeypatch.setattr(
        "django_jobs.admin.bounded.BoundedPaginator.found",
        property(lambda _paginator: connection.cursor().execute("SELECT pg_sleep(5)")),
    )
    response = admin_client.get(f"{JOBS}?state=dead")
    assert f"{JOBS}?e=1" == goal(response)
    response = admin_client.get(goal(response))  # which is too slow as well: no endless loop
    assert 200 == response.status_code
    assert b"Database error" in response.content


def test_the_reader_is_told_why_the_filters_are_gone(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(bounded, "SECONDS", 0.05)
        slow.setattr(
            "django_jobs.admin.bounded.BoundedPaginator.found",
            property(lambda _paginator: connection.cursor().execute("SELECT pg_sleep(5)")),
        )
        response = admin_client.get(f"{JOBS}?state=dead")
    [message] = told(admin_client, response)
    assert "was stopped; nothing was changed" in message


def test_the_time_limit_ends_with_the_list(admin_client: Client) -> None:
    shown(admin_client, JOBS)
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert ("0",) == cursor.fetchone()


def test_the_time_is_exact_in_the_title(admin_client: Client) -> None:
    [pk] = ended(1, finished_at="2026-11-30T10:20:30Z")
    page = shown(admin_client, f"{DEAD}?q={pk}")
    assert 'title="2026-11-30 10:20:30 UTC"' in page
    assert '<time datetime="2026-11-30T10:20:30+00:00"' in page


@pytest.mark.parametrize(
    ("state", "columns", "words"),
    [
        ("ready", {}, "ready for 1 m 00 s"),
        ("waiting", {}, "enqueued 1 m 00 s ago"),
        ("running", {"attempt": 1}, "running for 1 m 00 s"),
        ("succeeded", {}, "ended 1 m 00 s ago"),
        ("scheduled", {}, "was due 1 m 00 s ago"),
    ],
)
def test_each_state_shows_the_time_that_matters(
    admin_client: Client, state: str, columns: dict[str, Any], words: str
) -> None:
    Job.objects.create(
        task="a.b", state=state, finished_at=Now() if state == "succeeded" else None,
        run_after=Now() if state == "scheduled" else None, **columns,
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_jobs_job SET enqueued_at = t, last_attempted_at = t,"
            " run_after = CASE WHEN run_after IS NOT NULL THEN t END,"
            " finished_at = CASE WHEN finished_at IS NOT NULL THEN t END"
            " FROM (SELECT statement_timestamp() - interval '60.2 seconds' AS t) x"
        )
    assert f">{words}<" in shown(admin_client, JOBS).replace(NBSP, " ")


def test_a_requeued_job_has_been_ready_since_then(admin_client: Client) -> None:
    made = ended(1, enqueued_at="2020-01-01T00:00Z")
    requeue(made, actor=ANA, reason="", database="default")
    page = shown(admin_client, JOBS).replace(NBSP, " ")
    assert re.search(r">ready for \d\.\d s<", page)


def test_the_error_stands_under_the_name_of_the_task(admin_client: Client) -> None:
    ended(1, error="OSError: " + "x" * 1000)
    for address in (JOBS, DEAD):
        page = shown(admin_client, address)
        assert re.search(r'field-short_task">boom.*OSError: x+…</span></td>', page)


@pytest.mark.parametrize("state", JobState.values)
def test_every_state_is_offered(admin_client: Client, state: str) -> None:
    assert f"?state={state}" in shown(admin_client, JOBS)


def test_a_search_for_what_is_no_id_says_so(admin_client: Client) -> None:
    ended()
    assert "“abc” is not the id of a job" in shown(admin_client, f"{JOBS}?q=abc")
    assert "is not the id" not in shown(admin_client, f"{JOBS}?q=999999")


def test_a_state_of_another_version_is_shown_as_it_is(admin_client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_jobs_job DROP CONSTRAINT django_jobs_job_known_state")
    pk = live("zzz")
    assert [pk] == rows(admin_client, f"{JOBS}?state=zzz")
    page = shown(admin_client, JOBS)
    assert "zzz" in page
    assert "jobs-unknown" in page
