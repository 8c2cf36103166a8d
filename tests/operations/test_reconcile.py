"""What a crash or a hand in the tables leaves wrong, the sweeper rights."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from django_jobs.models import Job, Lease, Limit
from django_jobs.operations.reconcile import Righted, reconcile
from django_jobs.worker.sweeper import Look
from tests.operations.desk import Desk, succeeded
from tests.operations.limited import (
    KEY,
    held,
    in_state,
    limit,
    limited,
    meanwhile,
    opened,
    states,
    take,
    versions,
)
from tests.worker.test_hosting import worker

pytestmark = pytest.mark.django_db(transaction=True)


def look(desk: Desk, *, after: str = "", asking: bool = True) -> Look:
    """What the probe says."""
    params = {
        "after": after,
        "reconcile": asking,
        "backend": "default",
        "digests": [],
        "later": [],
    }
    return Look(*desk.database.fetch("look", params)[0])


def righted(desk: Desk, *keys: str) -> list[Righted]:
    """Reconcile these keys."""
    transaction = desk.open().transaction()
    return reconcile(keys, transaction=transaction, database=desk.database)


# keys that somebody may be woken for


def test_the_probe_names_keys_with_room_and_blocked_jobs(pair: list[Desk]):
    one, _ = pair
    for key, size in (("full", 1), ("stopped", 0), ("room", 1), ("no row", 0), ("no size", 0)):
        limited(2, key=key, size=size)
    take(one)
    Limit.objects.create(key="nobody waits", size=5)
    Limit.objects.filter(key="room").update(in_use=0)
    Limit.objects.filter(key="no size").update(size=None)
    Limit.objects.filter(key="no row").delete()
    assert ["no row", "no size", "room"] == sorted(look(one).wakeable)
    Limit.objects.filter(key="stopped").update(override=1)
    Limit.objects.filter(key="room").update(override=0)
    assert ["no row", "no size", "stopped"] == sorted(look(one).wakeable)


def test_the_probe_goes_on_where_it_ended(pair: list[Desk]):
    one, _ = pair
    rows = [Job(task="t", state="blocked", limit_key=f"{n:04}") for n in range(1003)]
    Job.objects.bulk_create([*rows, *rows[:10]])
    first = look(one)
    assert ("0999", [f"{n:04}" for n in range(1000)]) == (first.after, sorted(first.wakeable))
    second = look(one, after=first.after)
    assert ("", ["1000", "1001", "1002"]) == (second.after, sorted(second.wakeable))


def test_a_crash_between_an_end_and_its_wake_strands_nobody(pair: list[Desk]):
    one, _ = pair
    limited(3, size=1)
    [job] = take(one).jobs
    one.settle(succeeded(job))
    assert {"succeeded": 1, "blocked": 2} == states()
    with worker("web-1") as made:
        made.sweeper._mind_placements()  # which rings the first time
        made.loop._rung = False
        made.sweeper.sweep()
        assert {"succeeded": 1, "ready": 1, "blocked": 1} == states()
        assert made.loop._rung, "its own loop looks at once"


# permits that nobody holds


def test_a_job_deleted_by_hand_with_its_lease_gives_its_permit_back(
    pair: list[Desk], caplog: pytest.LogCaptureFixture
):
    one, _ = pair
    limited(3, size=2)
    job, _other = take(one).jobs
    Job.objects.filter(pk=job.id).delete()
    Lease.objects.filter(pk=job.lease).delete()
    assert (2, 1) == (limit().in_use, held())
    with worker("web-1") as made, caplog.at_level(logging.WARNING):
        made.sweeper.sweep()
    assert (1, 1, 1) == (limit().in_use, held(), len(in_state("ready")))
    assert f"limit {KEY}: 2 permits in use, but 1 leases; now 1" in caplog.text


def test_a_reconciliation_is_asked_for_once_a_minute(pair: list[Desk]):
    asked: list[bool] = []
    with worker("web-1") as made:
        fetch = made.sweeper.database.fetch

        def noting(name: str, params: Any) -> Any:
            if name == "look":
                asked.append(params["reconcile"])
            return fetch(name, params)

        made.sweeper.database.fetch = noting  # type: ignore[method-assign]
        for _ in range(3):
            made.sweeper.sweep()
        made.sweeper._reconcile_at -= 61
        made.sweeper.sweep()
    assert [True, False, False, True] == asked


def test_the_probe_names_only_what_differs(pair: list[Desk]):
    one, _ = pair
    for key in ("right", "too many", "too few"):
        limited(2, key=key, size=1)
    take(one)
    Limit.objects.create(key="unused", size=5)
    Limit.objects.filter(key="too many").update(in_use=2)
    Limit.objects.filter(key="too few").update(in_use=0)
    assert ["too few", "too many"] == sorted(look(one).drifted or [])
    assert look(one, asking=False).drifted is None


def test_what_is_right_is_not_written(pair: list[Desk]):
    one, _ = pair
    limited(2, size=1)
    take(one)
    before = versions("limit")
    assert [] == righted(one, KEY)
    assert before == versions("limit")


def test_a_claim_under_way_is_waited_for_and_counted(pair: list[Desk]):
    """Counted in the snapshot of the lock, its lease would be missed and overshot later."""
    one, two = pair
    limited(1, size=3)
    take(one)
    Limit.objects.update(in_use=2)
    limited(1, size=3)
    with opened(one) as transaction:
        assert 1 == len(take(one).jobs)
        with meanwhile(two, lambda: righted(two, KEY)) as found:
            transaction.close()
    assert [[Righted(KEY, 3, 2)]] == found
    assert (2, 2) == (limit().in_use, held())


def test_an_end_under_way_is_counted_once(pair: list[Desk]):
    """It waits for the row: its lease still counts, and then it takes one off."""
    one, two = pair
    limited(2, size=2)
    job, _ = take(one).jobs
    Limit.objects.update(in_use=1)
    with opened(two) as transaction:
        two.database.fetch("reconcile_lock", {"keys": [KEY]})
        with meanwhile(one, lambda: one.settle(succeeded(job))):
            assert [(KEY, 1, 2)] == two.database.fetch("reconcile", {"keys": [KEY]})
            transaction.close()
    assert (1, 1) == (limit().in_use, held())
