"""Who looks after the jobs keeps nobody waiting: a scenario of two hundred jobs a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from tests.processes import wait_for
from tests.worker.fleet import Fleet

LONGEST = "1s"
EACH_SECOND = 200
WAITED = "still waiting for"  # what the server logs of a lock that is late
VERBS = [
    ["jobs", "purge", "--state=succeeded", "--older-than=1s", "--yes"],
    ["jobs", "purge", "--state=dead", "--older-than=1s", "--yes"],
    ["jobs", "doctor"],
    ["jobs", "workers"],
    ["jobs", "queues"],
    ["jobs", "explain", "--queue=default"],
    ["migrate", "--skip-checks"],
]


@pytest.fixture
def before(fleet: Fleet) -> Iterator[str]:
    """The log of a server that tells from now on of every lock that is waited for too long."""
    fleet.set("log_lock_waits", "on")
    fleet.set("deadlock_timeout", LONGEST)
    fleet.wait("SELECT current_setting('deadlock_timeout') = %s", LONGEST)
    yield fleet.server.log_path.read_text(errors="replace")
    fleet.set("log_lock_waits", None)
    fleet.set("deadlock_timeout", None)


@contextmanager
def producing(fleet: Fleet) -> Iterator[None]:
    """Enqueue at a steady rate, from a session of its own."""
    over = Event()

    def produce() -> None:
        own = Fleet(fleet.server, fleet.processes)
        begun, made = time.monotonic(), 0
        while not over.wait(0.05):
            due = int((time.monotonic() - begun) * EACH_SECOND) - made
            own.put("tests.tasks.ok", count=due)
            made += due
        own.close()

    thread = Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.subprocess
def test_no_command_makes_a_busy_fleet_wait(fleet: Fleet, before: str) -> None:
    def said() -> str:
        return fleet.server.log_path.read_text(errors="replace").removeprefix(before)

    def begun() -> int:
        return int(fleet.value("SELECT last_value FROM django_jobs_lease_id_seq"))

    for state, error in [("succeeded", None), ("dead", "boom")]:
        fleet.put(
            "tests.tasks.ok", count=5000, state=state, error=error,
            finished_at="2026-01-01 00:00+00", enqueued_at="2026-01-01 00:00+00",
        )  # fmt: skip
    fleet.started()
    fleet.started()
    with producing(fleet):
        for words in VERBS:
            first = begun()
            process = fleet.command(*words)
            assert process.wait() in (0, 1), process.log()
            assert begun() - first > 0.1 * EACH_SECOND, "Nobody was at work beside it."
    assert 0 == fleet.value("SELECT count(*) FROM django_jobs_job WHERE state = 'dead'")
    assert WAITED not in said()

    with fleet.connect() as holder, holder.transaction():  # such a wait would have been told
        holder.execute("LOCK TABLE django_jobs_job")
        late = Thread(target=fleet.put_one, args=("tests.tasks.ok",))
        late.start()
        wait_for(lambda: WAITED in said())
    late.join()
