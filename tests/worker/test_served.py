"""Which queues a worker serves: those it was told, or all that have jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Thread

import pytest

from django_jobs.testing import running_worker
from django_jobs.worker import served
from django_jobs.worker.served import Served
from tests.aliases import put_options
from tests.processes import wait_for
from tests.tasks import ok
from tests.worker.embedded import wait_for_ends


class Rung:
    """Counts how often a worker would be woken."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a queue be fresh for no time at all."""
    monkeypatch.setattr(served, "FRESH_SECONDS", 0.0)


def test_queues_that_were_told_neither_come_nor_go():
    names = Served(["mail", "default"], changed=(rung := Rung()))
    assert not names.dynamic
    assert (True, False) == (names.hear("mail"), names.hear("tenant-1"))
    assert (["mail", "default"], 0) == (names.names, rung.times)


def test_a_queue_without_jobs_leaves_and_comes_back_when_it_rings(short_memory: None):
    names = Served([], changed=(rung := Rung()))
    names.learn(["b", "a"])
    names.learn(["a", "b", "c"])
    assert (["b", "a", "c"], 2) == (names.names, rung.times), "those known keep their turn"
    names.learn(["a"])
    assert (["a"], 2) == (names.names, rung.times)
    assert names.hear("c")
    assert ["a", "c"] == names.names
    names.learn([])
    assert [] == names.names


def test_a_queue_that_rang_just_now_stays_although_no_job_of_it_is_seen():
    names = Served([], changed=Rung())
    names.hear("a")
    names.learn([])
    assert ["a"] == names.names


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_no_queue_is_lost_between_the_bell_and_the_look(
    hasty_threads: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(served, "FRESH_SECONDS", 3600.0)  # this may take long on a busy machine
    names = Served([], changed=Rung())
    looks, heard = 0, list[str]()
    while looks < 10:  # a listener that is through before the first look proves nothing
        more = [f"tenant-{len(heard) + number}" for number in range(500)]
        heard += more
        listener = Thread(target=lambda more=more: [names.hear(name) for name in more])
        listener.start()
        while listener.is_alive():
            names.learn(["default"])
            looks += 1
    assert {*heard, "default"} == set(names.names)


@pytest.mark.django_db(transaction=True)
def test_a_worker_of_every_queue_forgets_the_idle_ones_and_hears_them_again(
    settings, short_memory: None
):
    put_options(settings, QUEUES=[])
    tenants = [ok.using(queue_name=f"tenant-{number}") for number in range(5)]
    with running_worker(drain_seconds=1) as worker:
        assert ["succeeded"] * 5 == wait_for_ends(*[tenant.enqueue() for tenant in tenants])
        worker.sweeper.rounds.expect(0.0)
        wait_for(lambda: worker.served.names == [], what=f"{worker.served.names}")
        wait_for(lambda: worker.loop.idle)
        assert ["succeeded"] == wait_for_ends(tenants[3].enqueue(), seconds=3)
