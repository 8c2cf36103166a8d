"""A placement is found by its digest in the enqueue itself, or made with the job."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_jobs import Requires
from django_jobs.models import Job, Placement
from django_jobs.operations.place import place
from django_jobs.placement import Needs
from django_jobs.sql import SiteDatabase
from tests.tasks import ok
from tests.worlds import Session

HERE = SiteDatabase("default")
GPU = Requires(labels={"gpu", "os:linux"}, resources={"memory_mb": 7900, "cpus": 0.5})
gpu = ok.using(requires=GPU)


@pytest.mark.django_db
def test_equal_requirements_share_a_placement_and_others_do_not():
    gpu.enqueue(1)
    same = Requires(resources={"cpus": 0.5, "memory_mb": 7900.0}, labels=["os:linux", "gpu"])
    ok.using(requires=same).enqueue(2)
    ok.using(requires=Requires(host="web-1")).enqueue(3)
    ok.enqueue(4)
    first, second, third, fourth = Job.objects.order_by("id").values_list("placement", flat=True)
    assert first == second != third
    assert 0 == fourth
    assert 2 == Placement.objects.count()
    row = Placement.objects.get(pk=first)
    assert (None, ["gpu", "os:linux"], {"cpus": 0.5, "memory_mb": 7900}, None) == (
        row.host,
        row.labels,
        row.resources,
        row.task,
    )
    assert "web-1" == Placement.objects.get(pk=third).host
    assert Needs(requires=GPU) == row.needs
    assert row.needs.digest == row.digest


@pytest.mark.django_db
def test_any_host_needs_no_row():
    ok.using(requires=Requires()).enqueue(1)
    ok.enqueue_many([ok.using(requires=Requires()).s(1), ok.s(2)])
    assert {0} == set(Job.objects.values_list("placement", flat=True))
    assert not Placement.objects.exists()
    assert 0 == place(Needs(), database=HERE)


@pytest.mark.django_db
def test_an_enqueue_with_requirements_is_one_statement(django_assert_num_queries: Any):
    gpu.enqueue(1)  # what is asked once a process is asked here
    with django_assert_num_queries(1):
        gpu.enqueue(2)
    with django_assert_num_queries(1):
        ok.enqueue_many([gpu.s(3), ok.s(4)])


@pytest.mark.django_db
def test_many_at_once_make_each_placement_once_and_find_those_that_are_there():
    gpu.enqueue(0)
    hosts = [Requires(host=f"h{number % 7}") for number in range(40)]
    calls = [ok.using(requires=each).s(number) for number, each in enumerate(hosts)]
    ids = ok.enqueue_many([*calls, gpu.s(40), ok.s(41)])
    placed = dict(Job.objects.values_list("id", "placement"))
    names = {pk: host for pk, host in Placement.objects.values_list("id", "host") if host}
    assert 7 == len(names)
    assert [f"h{number % 7}" for number in range(40)] == [
        names[placed[int(pk)]] for pk in ids[:40]
    ]
    assert [placed[min(placed)], 0] == [placed[int(pk)] for pk in ids[40:]]
    assert 8 == Placement.objects.count()


@pytest.mark.django_db
def test_batches_share_the_placements_that_one_of_them_has_made(monkeypatch: pytest.MonkeyPatch):
    """And each job has its own labels and amounts."""
    monkeypatch.setattr("django_jobs.operations.enqueue.BATCH", 10)
    asked = [
        Requires(labels={f"l{n % 3}", "gpu"}, resources={"cpus": n % 3 + 1}) for n in range(35)
    ]
    ids = ok.enqueue_many([ok.using(requires=each).s(1) for each in asked])
    placed = dict(Job.objects.values_list("id", "placement"))
    found = {row.pk: row.needs for row in Placement.objects.all()}
    assert 3 == len(found)
    assert [Needs(requires=each) for each in asked] == [found[placed[int(pk)]] for pk in ids]


@pytest.mark.django_db(transaction=True)
def test_a_rollback_takes_the_placement_with_the_job_and_the_next_enqueue_makes_it_again():
    """Nothing that a process remembers may be of a transaction that never was."""
    with transaction.atomic():
        gpu.enqueue(1)
        transaction.set_rollback(True)
    assert not Placement.objects.exists()
    gpu.enqueue(2)
    assert Job.objects.get().placement == Placement.objects.get().pk
    Placement.objects.all().delete()  # as a test that empties every table does
    Job.objects.all().delete()
    gpu.enqueue(3)
    assert Job.objects.get().placement == Placement.objects.get().pk


def test_racing_first_uses_make_twins_and_wait_for_nobody(second_connection: Any):
    """The other transaction is open all the time; each has its own row."""
    with second_connection.cursor() as cursor:
        cursor.execute("BEGIN")
        theirs = place(Needs(requires=GPU), database=Session(second_connection))
        gpu.enqueue(1)
        mine = Job.objects.get().placement
        assert mine != theirs
        assert [mine] == list(Placement.objects.values_list("pk", flat=True))
        cursor.execute("COMMIT")
    gpu.enqueue(2)
    assert min(mine, theirs) == Job.objects.latest("id").placement
    ok.enqueue_many([gpu.s(3)])
    assert min(mine, theirs) == Job.objects.latest("id").placement
    assert min(mine, theirs) == place(Needs(requires=GPU), database=HERE)
    assert 2 == Placement.objects.count()
