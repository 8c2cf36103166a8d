"""What runs say of themselves is written to their own leases, and nobody waits for it."""

from __future__ import annotations

import pytest

from django_jobs.models import Lease
from django_jobs.operations.progress import write_progress
from django_jobs.tasks.context import Said
from tests.operations.desk import Desk, answers, jobs, succeeded

pytestmark = pytest.mark.django_db(transaction=True)
HALF: Said = (1, 2, "half")


def written(desk: Desk, *leases: int, said: Said = HALF) -> set[int]:
    return write_progress(dict.fromkeys(leases, said), worker=desk.id, database=desk.database)


def shown() -> dict[int, object]:
    return dict(Lease.objects.values_list("pk", "progress"))


def test_each_lease_gets_what_its_own_run_says(pair: list[Desk]):
    one, _ = pair
    jobs(3)
    a, b, silent = (job.lease for job in one.claim())
    said: dict[int, Said] = {b: (2, None, ""), a: (0.5, 1e16, 'say "a\\b", {c}\0\ud800 é')}
    assert {a, b} == write_progress(said, worker=one.id, database=one.database)
    assert {
        a: {"done": 0.5, "total": 1e16, "message": 'say "a\\b", {c}\0\ud800 é'},
        b: {"done": 2, "total": None, "message": ""},
        silent: None,
    } == shown()


def test_a_lease_that_is_lost_or_of_another_worker_is_not_written(pair: list[Desk]):
    one, two = pair
    jobs(2)
    held, lost = one.claim()
    Lease.objects.filter(pk=lost.lease).delete()
    assert set() == written(two, held.lease, lost.lease)
    assert {held.lease: None} == shown()
    assert {held.lease} == written(one, held.lease, lost.lease)


def test_a_lease_that_somebody_is_changing_is_not_waited_for(pair: list[Desk]):
    one, two = pair
    jobs(2)
    busy, free = one.claim()
    with two.open().transaction():
        two.open().execute("SELECT FROM django_jobs_lease WHERE id = %s FOR UPDATE", [busy.lease])
        assert {free.lease} == written(one, busy.lease, free.lease)
    assert {busy.lease} == written(one, busy.lease)


def test_a_settle_takes_the_progress_with_the_lease(pair: list[Desk]):
    one, _ = pair
    jobs()
    [job] = one.claim()
    written(one, job.lease)
    assert ["settled"] == answers(one.settle(succeeded(job)))
    assert {} == shown()
    assert set() == written(one, job.lease)


def test_a_progress_is_no_new_entry_in_an_index_and_is_not_flushed(pair: list[Desk]):
    """A row is replaced within its page, whatever it says; more rows than this need a prune."""
    one, _ = pair
    jobs(6)
    leases = [job.lease for job in one.claim()]
    told = [0, 0]
    for number in range(8):
        with one.open().transaction():
            before = counted(one)
            assert set(leases) == written(one, *leases, said=(number, 8, "half"))
            assert ("off",) == one.open().execute("SHOW synchronous_commit").fetchone()
            after = counted(one)
        told = [told[0] + after[0] - before[0], told[1] + after[1] - before[1]]
    assert [48, 48] == told


def counted(desk: Desk) -> tuple[int, int]:
    """Return how many leases this session has updated, and how many of them within a page."""
    row = desk.open().execute(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables"
        " WHERE relname = 'django_jobs_lease'"
    )
    return row.fetchone() or (0, 0)
