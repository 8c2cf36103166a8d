"""How far a run is, its timeout, and that its time is over, as the pages tell it."""

from __future__ import annotations

import re
from math import inf
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_jobs.admin.progress import bar
from django_jobs.models import Event, Job, Lease, Worker
from tests.admin.pages import JOBS, WORKERS, page_of, shown
from tests.operations.ended import ended, live

pytestmark = pytest.mark.django_db
SAID = {"done": 40, "total": 100, "message": "forty"}


def worker(pid: int = 42) -> UUID:
    made = Worker.objects.create(
        id=uuid4(), backend="default", name="web-1", pid=pid, version="1", capacity=6
    )
    return made.pk


def held(*, by: UUID | None = None, **columns: Any) -> int:
    """Insert a running job with its lease; return the job's id."""
    pk = live("running")
    owner = by or worker()
    Lease.objects.create(job_id=pk, worker=owner, expires_at="2999-01-01T00:00Z", **columns)
    return pk


def words_on(client: Client, address: str) -> str:
    return re.sub(r"(<[^>]*>|\s)+", " ", shown(client, address))


# the bar


@pytest.mark.parametrize(
    ("said", "share", "words"),
    [
        ('{"done":40,"total":100,"message":"a <b>"}', "0.400", "40 of 100 (40 %), a &lt;b&gt;"),
        ('{"done":0.5,"total":1.5}', "0.333", "0.5 of 1.5 (33 %)"),
        ('{"done":12345,"total":99999}', "0.123", "12,345 of 99,999 (12 %)"),
        ('{"done":9999,"total":10000}', "1.000", "9,999 of 10,000 (99 %)"),
        ('{"done":7,"total":7}', "1.000", "7 of 7 (100 %)"),
        ('{"done":120,"total":100}', "1.000", "120 of 100"),
        ('{"done":1e300,"total":5e-324}', "1.000", "1e+300 of 4.94066e-324"),
        ('{"done":1e-300,"total":1e300}', "0.000", "1e-300 of 1e+300 (0 %)"),
        ('{"done":3,"total":null,"message":"x"}', None, "3 done, x"),
        ('{"done":3}', None, "3 done"),
        ('{"done":3,"total":0}', None, "3 done"),
        ('{"done":3,"total":"4","message":5}', None, "3 done"),
    ],
)
def test_progress_is_a_bar_and_words(said: str, share: str | None, words: str) -> None:
    html = str(bar(said))
    assert words == html.replace("</span>", "").rpartition(">")[2].strip()
    assert ([share] if share else []) == re.findall(r'value="(.*?)"', html)
    assert bool(share) == ('aria-label="Progress"' in html)


@pytest.mark.parametrize(
    "said",
    [
        None, "", "no json", "[]", "7", '{"done":"4"}', '{"done":-1}', '{"done":NaN}',
        '{"done":1e999}', '{"done":null}', '{"total":3}', '{"done":1' + "0" * 400 + "}",
    ],
)  # fmt: skip
def test_a_progress_that_says_nothing_shows_nothing(said: str | None) -> None:
    assert "" == bar(said)


def test_a_message_that_cannot_be_sent_is_escaped() -> None:
    assert b"\\ud800" in str(bar('{"done":1,"message":"\\ud800"}')).encode()


# the page of a job


def test_the_page_of_a_running_job_shows_how_far_it_is(viewer: Client) -> None:
    pk = held(progress=SAID)
    page = shown(viewer, page_of(pk))
    assert (
        '<progress aria-label="Progress" value="0.400"></progress> 40 of 100 (40 %), forty' in page
    )
    Lease.objects.update(progress=None)
    assert "<progress" not in shown(viewer, page_of(pk))


def test_a_progress_that_a_hand_wrote_fails_no_page(viewer: Client) -> None:
    pk = held()
    for text in ("no json", "[" * 100_000, '{"done":1,"message":"' + "x" * 100_000 + '"}'):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_lease SET progress = %s", [text])
        for page in (page_of(pk), JOBS, WORKERS):
            assert "1 done" not in shown(viewer, page)


def test_markup_in_a_message_is_shown_as_text(viewer: Client) -> None:
    pk = held(progress={**SAID, "message": "<img src=x onerror=alert(1)>"})
    for page in (page_of(pk), JOBS):
        assert "<img src=x" not in shown(viewer, page)
        assert "&lt;img" in shown(viewer, page)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (30, "30 s"), (0.25, "0.25 s"), (90, "1 m 30 s"), (inf, "none"),
        (None, "as its worker says"),
    ],
)  # fmt: skip
def test_the_page_tells_the_timeout_of_the_job(
    viewer: Client, seconds: float | None, words: str
) -> None:
    [pk] = ended()
    Job.objects.update(timeout=seconds)
    assert f'<th scope="row">Timeout</th><td>{words}</td>' in shown(viewer, page_of(pk))


def test_a_run_over_its_timeout_is_a_warning_that_says_what_follows(viewer: Client) -> None:
    pk = held(by=worker())
    assert "Over its timeout" not in words_on(viewer, page_of(pk))
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_jobs_lease SET timed_out_at = statement_timestamp() - interval '75 s'"
        )
    page = words_on(viewer, page_of(pk))
    assert "▲ Over its timeout Its time was over 1 m 15 s ago . web-1:42 keeps its" in page
    assert "a quarter of" in page
    assert "leaves by itself with status 70" in page


def test_the_timeline_tells_which_timeout_it_was(viewer: Client) -> None:
    pk = held()
    columns: Any = {"kind": "timed_out", "data": {"timeout": 30.0}}
    event = Event.objects.create(job_id=pk, attempt=1, life=1, **columns)
    page = shown(viewer, page_of(pk))
    assert 'class="jobs-line jobs-line-timed_out"' in page
    assert "<strong>over its timeout of 30 s</strong>" in page
    for data in (None, {}, {"timeout": "x"}, {"timeout": None}, [1]):
        Event.objects.filter(pk=event.pk).update(data=data)
        assert "<strong>over its timeout</strong>" in shown(viewer, page_of(pk))


@pytest.mark.parametrize("text", ["no json", "[1]", "{}", '{"timeout":"x"}', '{"timeout":1e999}'])
def test_an_event_that_a_hand_wrote_does_not_hide_a_run_over_its_timeout(
    viewer: Client, text: str
) -> None:
    pk = held(timed_out_at="2026-01-01T00:00Z")
    Event.objects.create(job_id=pk, kind="timed_out", attempt=1, life=1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_event SET data = %s", [text])
    assert "▲ Over its timeout" in words_on(viewer, page_of(pk))


# the lists


def test_the_list_shows_how_far_each_running_job_is(viewer: Client) -> None:
    held(progress={**SAID, "message": "m" * 200})
    held(progress={**SAID, "done": 50}, timed_out_at="2026-01-01T00:00Z")
    held()
    page = words_on(viewer, JOBS)
    assert "40 of 100 (40 %), " + "m" * 59 + "…" in page
    assert "▲ over its timeout 50 of 100 (50 %), forty" in page
    assert 1 == page.count("over its timeout")
    assert 2 == shown(viewer, JOBS).count("<progress")


def test_what_is_left_of_a_lease_says_nothing_of_a_job_that_does_not_run(viewer: Client) -> None:
    pk = held(progress=SAID, timed_out_at="2026-01-01T00:00Z")
    Job.objects.update(state="ready")
    for page in (JOBS, page_of(pk)):
        assert "<progress" not in shown(viewer, page)
        assert "ver its timeout" not in words_on(viewer, page)


def test_the_workers_tell_how_many_of_their_runs_are_over_their_timeout(viewer: Client) -> None:
    one, two = worker(1), worker(2)
    late = held(by=one, timed_out_at="2026-01-01T00:00Z")
    held(by=one)
    held(by=two)
    page = words_on(viewer, WORKERS)
    assert "2/6 leases ▲ 1 over its timeout" in page
    assert 1 == page.count("over its timeout")
    page = words_on(viewer, f"{WORKERS}{one}/change/")
    assert f"{late} tests.tasks.ok ▲ over its timeout" in page
    assert 2 == page.count("over its timeout")
    assert "over" not in words_on(viewer, f"{WORKERS}{two}/change/").split("Leases")[1]
    Lease.objects.update(timed_out_at="2026-01-01T00:00Z")
    assert "2/6 leases ▲ 2 over their timeout" in words_on(viewer, WORKERS)


def test_pages_cost_the_same_however_many_runs_say_how_far_they_are(
    admin_client: Client, django_assert_num_queries: Any
) -> None:
    owner = worker()
    held(by=owner)
    pages = (JOBS, WORKERS, f"{WORKERS}{owner}/change/")
    for page in pages:
        shown(admin_client, page)  # what a process reads once has been read
    costs = {page: cost(admin_client, page) for page in pages}
    for _ in range(20):
        held(by=owner, progress=SAID, timed_out_at="2026-01-01T00:00Z")
    for page, count in costs.items():
        with django_assert_num_queries(count):
            shown(admin_client, page)


def cost(client: Client, page: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        shown(client, page)
    return len(queries)
