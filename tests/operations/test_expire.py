"""A job that has not started by its deadline never starts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from django_jobs.models import Dependency, Event, Job
from django_jobs.operations.expire import BATCH, Expired, expire
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.promote import promote
from django_jobs.operations.requeue import requeue
from django_jobs.operations.rescue import rescue
from tests.operations.desk import (
    QUIET,
    Desk,
    failed,
    job_row,
    jobs,
    kinds,
    lapse,
    silence,
)
from tests.operations.ended import ANA
from tests.operations.limited import end_as, limit, limited, opened, take
from tests.worker.test_hosting import worker

pytestmark = pytest.mark.django_db(transaction=True)
AGO, AHEAD = timedelta(seconds=-1), timedelta(hours=1)


def until(span: timedelta, count: int = 1, **columns: Any) -> list[int]:
    """Insert jobs that must have started within a span of time from now."""
    return jobs(count, expires_at=timezone.now() + span, **columns)


def expired(desk: Desk) -> list[Expired]:
    return expire(database=desk.database)


def backdate(column: str = "expires_at") -> None:
    """Let the deadline of every job have passed."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE django_jobs_job SET {column} = clock_timestamp() - interval '1 s'"
            f" WHERE {column} IS NOT NULL"
        )


def test_the_claim_lets_a_late_job_expire_instead_of_running_it(pair: list[Desk]):
    one, _ = pair
    [late], [early] = until(AGO), until(AHEAD)
    got = take(one)
    assert [early] == [job.id for job in got.jobs]
    assert [("expired", late)] == [(other.state, other.id) for other in got.others]
    row = job_row(late)
    assert ("expired", 0, [], None) == (row.state, row.attempt, row.worker_ids, row.started_at)
    assert row.finished_at is not None
    [event] = Event.objects.filter(job_id=late)
    assert ("expired", {"reason": "late"}) == (event.kind, event.data)


def test_a_late_job_takes_no_permit(pair: list[Desk]):
    one, _ = pair
    limited(1, size=2, expires_at=timezone.now() + AGO)
    [pk] = limited(1, size=2)
    assert [pk] == [job.id for job in take(one).jobs]
    assert 1 == limit().in_use


@pytest.mark.parametrize("state", ["ready", "scheduled", "waiting", "blocked"])
def test_the_sweep_lets_every_late_job_expire_that_has_not_started(pair: list[Desk], state: str):
    one, _ = pair
    columns: dict[str, Any] = {"run_after": timezone.now() + AHEAD} if state == "scheduled" else {}
    [late] = until(AGO, state=state, limit_key="k", **columns)
    [early] = until(AHEAD, state=state, limit_key="k", **columns)
    [never] = jobs(state=state, limit_key="k", **columns)
    assert [Expired(late, "default", has_children=False, queue="default")] == expired(one)
    assert (["expired"], []) == (kinds(late), kinds(early))
    assert "expired" == job_row(late).state
    assert job_row(late).finished_at is not None
    assert {state} == {job_row(early).state, job_row(never).state}


def test_an_expired_job_tells_that_others_wait_for_it(pair: list[Desk]):
    one, _ = pair
    [parent], [alone] = until(AGO), until(AGO)
    [child] = jobs(state="waiting")
    Dependency.objects.create(parent=parent, child=child)
    assert {parent: True, alone: False} == {job.id: job.has_children for job in expired(one)}


@pytest.mark.parametrize("how", ["claim", "sweep"])
def test_a_job_that_has_started_never_expires(pair: list[Desk], how: str):
    """A retry may come as late as it must; so may a job that a rescue gives back."""
    one, two = pair
    until(AHEAD, 3, backoff="constant", backoff_base=0, backoff_jitter=0)
    first, second, _running = take(one).jobs
    end_as(one, failed(first, delay=0.0))
    silence(one)
    lapse(second.lease)
    rescue(quiet=QUIET, database=two.database)
    backdate()
    if how == "claim":
        promote(worker=two.id, database=two.database)
        one.beat()
        assert {first.id, second.id} == {job.id for _ in range(2) for job in take(one).jobs} | {
            job.id for job in take(two).jobs
        }
    assert [] == expired(one)
    assert 0 == Job.objects.filter(state="expired").count()


def test_a_hand_back_does_not_reset_the_clock(pair: list[Desk]):
    """The run that was handed back never started, and the deadline is the same as before."""
    one, two = pair
    [pk] = until(AHEAD)
    deadline = job_row(pk).expires_at
    [job] = take(one).jobs
    end_as(one, handed_back(lease=job.lease, job=job.id, reason="drain"))
    assert deadline == job_row(pk).expires_at
    backdate()
    assert [pk] == [each.id for each in expired(two)]
    assert ["handed_back", "expired"] == kinds(pk)


def test_a_hand_back_of_a_retry_is_still_a_job_that_has_started(pair: list[Desk]):
    one, _ = pair
    until(AHEAD)
    [job] = take(one).jobs
    end_as(one, failed(job, delay=0.0))
    promote(worker=one.id, database=one.database)
    [job] = take(one).jobs
    end_as(one, handed_back(lease=job.lease, job=job.id, reason="drain"))
    backdate()
    assert ([], 1) == (expired(one), len(take(one).jobs))


def test_two_sweeps_let_a_job_expire_once(pair: list[Desk]):
    one, two = pair
    [pk] = until(AGO)
    with opened(one) as transaction:
        assert 1 == len(expired(one))
        assert [] == expired(two)
        transaction.close()
    assert ([], ["expired"]) == (expired(two), kinds(pk))


def test_a_sweep_takes_a_batch(pair: list[Desk]):
    one, _ = pair
    until(AGO, BATCH + 5)
    assert [BATCH, 5, 0] == [len(expired(one)) for _ in range(3)]


def test_the_probe_says_when_the_next_job_expires(pair: list[Desk]):
    one, _ = pair

    def expires_in() -> Any:
        params = {
            "after": "",
            "reconcile": False,
            "backend": "default",
            "digests": [],
            "later": [],
        }
        return one.database.fetch("look", params)[0][2]

    assert expires_in() is None
    until(AHEAD)
    assert 3590 < expires_in() <= 3600
    until(AGO)
    assert -60 < expires_in() < 0
    [started] = take(one).jobs
    assert expires_in() is None
    end_as(one, failed(started))
    assert expires_in() is None, "it has started"


def test_the_sweeper_lets_jobs_expire_and_announces_them(pair: list[Desk]):
    [pk], [soon] = until(AGO), until(timedelta(seconds=2))
    announced: list[int] = []
    with worker("web-1") as made:
        made.sweeper._buried = lambda job: announced.append(job.id)
        made.sweeper.sweep()
        assert ([pk], "expired") == (announced, job_row(pk).state)
        assert made.sweeper.sweep() <= 2
    assert "ready" == job_row(soon).state


def test_a_requeued_job_has_no_deadline_any_more(pair: list[Desk]):
    """An operator who wants it now would else be told at once that it is too late."""
    [pk] = until(AGO)
    take(pair[0])
    assert 1 == requeue([pk], actor=ANA, database="default").count
    assert None is job_row(pk).expires_at
    assert [pk] == [job.id for job in take(pair[0]).jobs]
