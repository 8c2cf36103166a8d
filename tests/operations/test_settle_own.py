"""A run's success is written in its own transaction, behind the fence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction

from django_jobs.models import Job
from django_jobs.models import Limit as LimitRow
from django_jobs.operations.settle_own import Own, begin_own, settle_own
from django_jobs.sql import SiteDatabase
from tests.operations.desk import (
    Desk,
    answers,
    desks,
    job_row,
    jobs,
    kinds,
    lease_left,
    succeeded,
)

pytestmark = pytest.mark.django_db(transaction=True)

HERE = SiteDatabase("default")


@pytest.fixture
def desk() -> Iterator[Desk]:
    with desks("own") as [made]:
        yield made


def settled(job: Any, desk: Desk, **changes: Any) -> Own:
    """Settle a claimed job in a transaction, with one value of the fence changed."""
    outcome = succeeded(job, '"done"')
    with transaction.atomic():
        given = {"began": begin_own(HERE), "worker": desk.id, **changes}
        return settle_own(outcome, database=HERE, **given)


def test_it_writes_what_the_ordinary_settle_writes(desk: Desk):
    columns = {
        "limit_key": "k",
        "limit_size": 2,
        "error": "earlier",
        "fingerprint": "0" * 16,
        "suspect": True,
    }
    own, other = jobs(2, **columns)
    Job.objects.filter(pk=other).update(suspect=False)  # a worker holds one suspect at a time
    claimed = {job.id: job for job in [*desk.claim(), *desk.claim()]}
    asked = "2026-01-01T00:00Z"
    Job.objects.update(suspect=True, cancel_asked_at=asked, reserved_at=asked)
    assert Own(done=True, same=True) == settled(claimed[own], desk)
    assert ["settled"] == answers(desk.settle(succeeded(claimed[other], '"done"')))
    differs = {"id", "created_at", "enqueued_at", "started_at", "last_attempted_at"}
    differs |= {"finished_at", "settled_lease"}
    [mine, theirs] = [
        {name: value for name, value in row.items() if name not in differs}
        for row in Job.objects.order_by("pk").values()
    ]
    assert theirs == mine
    assert claimed[own].lease == job_row(own).settled_lease
    assert job_row(own).finished_at is not None
    assert not lease_left(claimed[own].lease)
    assert [] == kinds(own)


def test_it_leaves_the_permit_to_the_loop(desk: Desk):
    jobs(1, limit_key="k", limit_size=2)
    [job] = desk.claim()
    settled(job, desk)
    assert 1 == LimitRow.objects.get(key="k").in_use


def test_the_ordinary_settle_finds_it_repeated(desk: Desk):
    jobs(1, limit_key="k", limit_size=2)
    [job] = desk.claim()
    settled(job, desk)
    [answer] = desk.settle(succeeded(job))
    assert ("repeated", "succeeded", "k") == (answer.answer, answer.state, answer.limit_key)
    assert answer.finished_at is not None


@pytest.mark.parametrize("part", ["worker", "lease", "state"])
def test_without_its_lease_it_writes_nothing(desk: Desk, part: str):
    [pk] = jobs()
    [job] = desk.claim()
    changes: dict[str, Any] = {}
    if part == "worker":
        changes["worker"] = uuid4()
    elif part == "lease":
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_lease SET id = id + 1000")
    else:
        Job.objects.update(state="ready")
    assert Own(done=False, same=True) == settled(job, desk, **changes)
    assert (None, None) == (job_row(pk).finished_at, job_row(pk).settled_lease)


def test_in_another_transaction_it_writes_nothing(desk: Desk):
    jobs()
    [job] = desk.claim()
    assert Own(done=False, same=False) == settled(job, desk, began="1")
    assert lease_left(job.lease)


def test_a_rollback_takes_it_back(desk: Desk):
    [pk] = jobs()
    [job] = desk.claim()
    with transaction.atomic():
        began = begin_own(HERE)
        assert settle_own(succeeded(job), began=began, worker=desk.id, database=HERE).done
        transaction.set_rollback(True)
    assert ("running", True) == (job_row(pk).state, lease_left(job.lease))
