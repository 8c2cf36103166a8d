"""What a lost worker held is taken back once, and never from one that is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import connection

from django_jobs.models import Event, Job, Lease
from django_jobs.operations.renew import renew
from django_jobs.operations.rescue import Rescued, rescue
from django_jobs.sql import load
from tests.operations.desk import (
    LEASE,
    QUIET,
    Desk,
    desks,
    forget,
    job_row,
    jobs,
    kinds,
    lapse,
    silence,
    succeeded,
)
from tests.operations.ended import GATE, somebody_waits
from tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def rescued(desk: Desk) -> list[Rescued]:
    return rescue(quiet=QUIET, database=desk.database)


def test_a_lapsed_job_is_tried_again_by_its_own_policy(pair: list[Desk]):
    one, two = pair
    [pk] = jobs(backoff="linear", backoff_base=7, backoff_jitter=0)
    [job] = one.claim()
    silence(one)
    lapse(job.lease)
    [found] = rescued(two)
    assert (pk, "scheduled", 1) == (found.id, found.state, found.attempt)
    row = job_row(pk)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM run_after - clock_timestamp()) FROM django_jobs_job"
        )
        [delay] = cursor.fetchone()
    assert 6 < delay <= 7
    assert (1, [str(one.id)], True) == (row.attempt, row.worker_ids, row.suspect)
    [event] = Event.objects.filter(job_id=pk)
    assert ("rescued", 1, one.id) == (event.kind, event.attempt, event.worker)
    assert "worker_lost" == event.data["reason"]
    assert "worker 1 on one" in event.data["traceback"]
    assert not Lease.objects.exists()


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ({"max_attempts": 1}, "dead"),
        ({"max_attempts": 1, "keep_dead": False}, "dropped"),
        ({"max_attempts": 3, "idempotent": False}, "dead"),
        ({"max_attempts": 2}, "scheduled"),
    ],
)
def test_a_job_without_attempts_left_or_not_idempotent_is_buried(
    pair: list[Desk], columns: dict[str, Any], state: str
):
    one, two = pair
    [pk] = jobs(**columns)
    [job] = one.claim()
    lapse(job.lease)
    [found] = rescued(two)
    assert (state, "worker_lost") == (found.state, job_row(pk).error)
    assert ["rescued" if state == "scheduled" else state] == kinds(pk)
    assert (state != "scheduled") == bool(job_row(pk).finished_at)


def test_nobody_rescues_while_no_heartbeat_moves(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    lapse(job.lease)
    silence(one, two)
    assert [] == rescued(two)
    two.beat()
    assert [] == rescued(two), "the first beat gave it more time"
    lapse(job.lease)
    assert 1 == len(rescued(two))


def test_a_fleet_of_one_that_starts_again_within_quiet_waits_for_nothing(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    forget(two)
    silence(one, seconds=QUIET - 5)
    with desks("successor") as [successor]:
        lapse(job.lease)
        assert 1 == len(rescued(successor))


def test_a_worker_started_again_and_again_rescues_at_its_second_start(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    silence(one, two, seconds=600)
    lapse(job.lease, seconds=500)
    with desks("first start") as [first]:
        assert [] == rescued(first)
        assert not Lease.objects.lapsed().exists()
    silence(first, one, two, seconds=600)
    lapse(job.lease, seconds=500)
    with desks("second start") as [second]:
        assert 1 == len(rescued(second))


def test_the_workers_row_may_be_gone(pair: list[Desk]):
    one, two = pair
    [pk] = jobs()
    [job] = one.claim()
    lapse(job.lease)
    forget(one)
    assert 1 == len(rescued(two))
    assert job_row(pk).suspect
    assert "unknown host" in Event.objects.get(job_id=pk).data["traceback"]


def test_a_failover_that_lapses_everything_makes_no_suspects(pair: list[Desk]):
    one, two = pair
    jobs(6)
    claimed = one.claim()
    lapse(*[job.lease for job in claimed])
    one.beat()
    assert 6 == len(rescued(two))
    assert not Job.objects.filter(suspect=True).exists()


def test_two_rescuers_bury_a_job_once(pair: list[Desk]):
    one, two = pair
    [pk] = jobs(max_attempts=1)
    with desks("third") as [third]:
        [job] = one.claim()
        lapse(job.lease)
        with two.open().transaction():
            first = rescued(two)
            assert [] == rescued(third)
        assert [] == rescued(third)
    assert (["dead"], 1) == (kinds(pk), len(first))


def test_rescue_skips_what_others_hold_and_takes_the_rest(pair: list[Desk]):
    one, two = pair
    jobs(3)
    claimed = one.claim()
    lapse(*[job.lease for job in claimed])
    with one.open().transaction():
        one.open().execute("SELECT FROM django_jobs_job WHERE id = %s FOR UPDATE", [claimed[0].id])
        assert {claimed[1].id, claimed[2].id} == {each.id for each in rescued(two)}
    assert [claimed[0].id] == [each.id for each in rescued(two)]


class Paused:
    """A rescue that stops between its first look and its locks, at a gate."""

    alias = "default"

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw
        self.answer: list[Any] | None = None

    def fetch(self, name: str, params: Any) -> list[Any]:
        """Run the statement with a wait put between its first two parts."""
        text = load(name).replace(
            "    WHERE l.id = ANY (ARRAY(SELECT id FROM late))",
            "    WHERE (SELECT count(*) >= 0 FROM late, LATERAL"
            f" (SELECT pg_advisory_xact_lock({GATE} + 0 * late.id)) gate)"
            " AND l.id = ANY (ARRAY(SELECT id FROM late))",
        )
        assert text != load(name)
        with psycopg.Cursor(self.raw) as cursor:
            cursor.execute(text, params)
            return cursor.fetchall()


def rescued_around(desk: Desk, meanwhile: Callable[[], object]) -> list[Rescued]:
    """Rescue, with ``meanwhile`` between what it sees and what it locks."""
    found: list[Rescued] = []
    raw = desk.open()
    raw.execute("SET lock_timeout = 0")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [GATE])
        thread = threading.Thread(
            target=lambda: found.extend(rescue(quiet=QUIET, database=Paused(raw)))
        )
        thread.start()
        wait_for(somebody_waits, what="the rescue never came to the gate")
        meanwhile()
        cursor.execute("SELECT pg_advisory_unlock(%s)", [GATE])
    thread.join(10)
    return found


def test_the_pause_in_the_rescue_changes_nothing_else(pair: list[Desk]):
    one, two = pair
    jobs()
    [job] = one.claim()
    lapse(job.lease)
    assert 1 == len(rescued_around(two, lambda: None))


def test_a_job_that_ends_while_it_is_looked_at_stays_as_it_ended(pair: list[Desk]):
    one, two = pair
    [pk] = jobs(max_attempts=1)
    [job] = one.claim()
    lapse(job.lease)
    assert [] == rescued_around(two, lambda: one.settle(succeeded(job)))
    assert ("succeeded", 1, []) == (job_row(pk).state, job_row(pk).attempt, kinds(pk))


def test_a_lease_that_is_renewed_while_it_is_looked_at_is_kept(pair: list[Desk]):
    one, two = pair
    [pk] = jobs(max_attempts=1)
    [job] = one.claim()
    lapse(job.lease)
    again = lambda: renew(  # noqa: E731
        [job.lease], worker=one.id, lease_seconds=LEASE, database=one.database
    )
    assert [] == rescued_around(two, again)
    assert ("running", 1) == (job_row(pk).state, Lease.objects.count())


def test_a_job_claimed_anew_while_it_is_looked_at_is_left_to_its_new_worker(pair: list[Desk]):
    one, two = pair
    [pk] = jobs(max_attempts=2)
    [job] = one.claim()
    lapse(job.lease)
    with desks("third") as [third]:

        def claimed_anew() -> None:
            rescued(one)
            with connection.cursor() as cursor:
                cursor.execute("UPDATE django_jobs_job SET state = 'ready', suspect = false")
            third.claim()

        assert [] == rescued_around(two, claimed_anew)
        row = job_row(pk)
        assert ("running", 2, ["rescued"]) == (row.state, row.attempt, kinds(pk))
        assert third.id == Lease.objects.get().worker


def orphans(count: int) -> None:
    """Leases of jobs that are not there, long lapsed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_jobs_lease (job_id, worker, expires_at)"
            " SELECT 10 ^ 12 + n, gen_random_uuid(), clock_timestamp() - interval '1 h'"
            " FROM generate_series(1, %s) n",
            [count],
        )


def test_leases_without_a_job_are_removed_and_delay_no_rescue(pair: list[Desk]):
    one, two = pair
    orphans(150)
    [pk] = jobs()
    [job] = one.claim()
    lapse(job.lease)
    assert [pk] == [each.id for each in rescued(two)]
    assert not Lease.objects.exists()


def test_a_lapsed_lease_of_a_job_that_runs_no_more_is_removed(pair: list[Desk]):
    one, two = pair
    jobs(2)
    first, second = one.claim()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET state = 'ready' WHERE id = %s", [first.id])
    lapse(first.lease)
    assert [] == rescued(two)
    assert [second.lease] == list(Lease.objects.values_list("pk", flat=True))
    assert (["ready", "running"], []) == (
        [job_row(job.id).state for job in (first, second)],
        kinds(first.id),
    )


def test_an_orphan_that_another_transaction_holds_is_left_for_the_next_time(pair: list[Desk]):
    one, two = pair
    orphans(3)
    with one.open().transaction():
        one.open().execute("SELECT FROM django_jobs_lease WHERE job_id = 10 ^ 12 + 1 FOR UPDATE")
        assert [] == rescued(two)
        assert 1 == Lease.objects.count()
    assert [] == rescued(two)
    assert not Lease.objects.exists()
