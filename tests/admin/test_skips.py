"""The skips: which host passes over what, why, since when, and who waits behind it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from django_jobs.admin import placements
from django_jobs.admin.placements import Behind, ready_jobs
from django_jobs.models import Job, Placement, Skip
from tests.admin.pages import SKIPS, shown

pytestmark = pytest.mark.django_db


def placement(**asked: Any) -> int:
    return Placement.objects.create(digest="0" * 32, **asked).pk


def skip(where: int, **columns: Any) -> Skip:
    columns = {"host": "web-1", "reason": "label", "detail": "gpu", **columns}
    return Skip.objects.create(placement=where, **columns)


def ready(where: int, count: int = 1, **columns: Any) -> None:
    jobs = (Job(task="a.b", placement=where, **columns) for _ in range(count))
    Job.objects.bulk_create(jobs)


def behind(*ids: int) -> dict[int, str]:
    return {pk: str(found) for pk, found in ready_jobs(ids, database="default").items()}


def test_a_skip_says_host_requirement_reason_and_since(viewer: Client) -> None:
    asked = placement(labels=["gpu"], resources={"memory_mb": 8000}, task="shop.tasks.resize")
    skip(asked, since="2026-11-30T10:20:30Z")
    ready(asked, 3)
    page = shown(viewer, SKIPS)
    for text in (
        ">web-1<", "gpu, memory_mb 8000, task shop.tasks.resize<", "<code>label</code>", ">gpu<",
        'title="2026-11-30 10:20:30 UTC"', '>3<span class="jobs-label"> ready jobs',
    ):  # fmt: skip
        assert text in page, text


def test_only_ready_jobs_of_the_placement_wait_behind_it() -> None:
    here, there = placement(host="a"), placement(host="b")
    ready(here, 2)
    ready(here, 1, queue="mail", priority=5)
    ready(here, 1, backend="second", suspect=True)
    ready(here, 1, state="scheduled", run_after=Now())
    ready(here, 1, state="dead", finished_at=Now())
    ready(0, 7)
    assert {here: "4", there: "0", 0: "7"} == behind(here, there, 0)


def test_no_more_jobs_are_counted_than_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "MOST", 4)
    here, there = placement(host="a"), placement(host="b")
    ready(here, 4)
    ready(there, 9)
    assert {here: "4", there: "1k+"} == behind(here, there)
    found = ready_jobs([here, there], database="default")
    assert (4, 5) == (found[here].count, found[there].count)


def test_where_not_every_queue_was_looked_at_the_number_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = placement(host="a")
    for queue in "abc":
        ready(here, 1, queue=queue)
    monkeypatch.setattr(placements, "MOST_LANES", 2)
    assert {here: "2+"} == behind(here)
    monkeypatch.setattr(placements, "MOST_LANES", 4)
    assert {here: "3"} == behind(here)


@pytest.mark.parametrize(
    ("count", "cut", "said"), [(0, False, "0"), (1000, False, "1000"), (1001, False, "1k+"),
                               (7, True, "7+"), (1001, True, "1k+")],
)  # fmt: skip
def test_a_number_is_said_no_more_exactly_than_it_was_counted(
    count: int, cut: bool, said: str
) -> None:
    assert said == str(Behind(count, cut))


def test_a_placement_that_is_gone_is_said_to_be(viewer: Client) -> None:
    skip(4711)
    assert "placement 4711, which is gone" in shown(viewer, SKIPS)


@pytest.mark.parametrize(
    "asked",
    [
        {"host": "no spaces here"}, {"labels": ["<b>"]}, {"resources": {"x": -1}},
        {"resources": [1]}, {"resources": "x", "task": "a.b"}, {"labels": ["x" * 200]},
    ],
)  # fmt: skip
def test_a_requirement_of_another_version_is_shown_as_it_is(
    viewer: Client, asked: dict[str, Any]
) -> None:
    skip(placement(**asked))
    shown(viewer, SKIPS)


def test_the_row_of_a_skip_can_be_looked_at(viewer: Client) -> None:
    asked = placement(labels=["gpu"])
    ready(asked, 2)
    page = shown(viewer, f"{SKIPS}{skip(asked).pk}/change/")
    assert "web-1" in page
    assert "<code>label</code>" in page
    assert 302 == viewer.get(f"{SKIPS}999999/change/").status_code


def test_nobody_edits_a_skip(admin_client: Client) -> None:
    pk = skip(placement(host="a")).pk
    for address in (f"{SKIPS}add/", f"{SKIPS}{pk}/change/", f"{SKIPS}{pk}/delete/"):
        assert 403 == admin_client.post(address, {"host": "x", "post": "yes"}).status_code
    assert "web-1" == Skip.objects.get().host


def test_no_skip_is_said_in_words(viewer: Client) -> None:
    assert "0 rows" in shown(viewer, SKIPS)
