"""A job that kills its worker runs out of attempts; the jobs beside it do not."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Process, wait_for
from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess
End = Callable[[], Path]


def supervised(fleet: Fleet, *flags: str, done: str) -> list[Process]:
    """Start workers one after another, as a supervisor does, until ``done`` says true."""
    processes = [fleet.worker("--lease", "2", *flags, NOTE_SIGNALS="1")]

    def over() -> bool:
        if fleet.value(done):
            return True
        if processes[-1].popen.poll() is not None:
            assert -signal.SIGKILL == processes[-1].wait()
            processes.append(fleet.worker("--lease", "2", *flags, NOTE_SIGNALS="1"))
        return False

    wait_for(over, seconds=60, what="the jobs never ended")
    return processes


@pytest.mark.slow
def test_a_poison_job_dies_after_its_attempts_and_the_others_succeed(fleet: Fleet):
    poison = fleet.put_one("tests.worker.tasks.poison", "poison", max_attempts=3)
    others = [
        fleet.put_one("tests.worker.tasks.work", f"o{n}", 0.3, max_attempts=3) for n in range(3)
    ]
    survivor = fleet.started("--lease", "2", "--queue", "mail", NOTE_SIGNALS="1")
    processes = supervised(
        fleet,
        "--queue",
        "default",
        done="SELECT bool_and(finished_at IS NOT NULL) FROM django_jobs_job",
    )
    assert 4 == len(processes)
    fleet.wait_for_run(f"finished {poison}")
    assert 0 == fleet.stop(processes[-1])
    assert 0 == fleet.stop(survivor)
    job = fleet.job(poison)
    assert ("dead", 3, "worker_lost", 3) == (
        job.state,
        job.attempt,
        job.error,
        fleet.ran("poison"),
    )
    assert ["rescued", "rescued", "dead"] == fleet.events(poison)
    assert "worker_lost" == fleet.value(
        "SELECT data::json ->> 'reason' FROM django_jobs_event WHERE kind = 'dead'"
    )
    assert 1 == fleet.ran(f"finished {poison}")
    [line] = fleet.lines("ERROR")
    assert f"id={poison}" in line
    assert {"succeeded"} == {fleet.job(pk).state for pk in others}
    assert [1, 1, 1] == [fleet.ran(f"finished {pk}") for pk in others]
    assert fleet.nothing_held()


def test_a_worker_holds_one_suspect_at_a_time_and_any_end_clears_the_mark(fleet: Fleet, end: End):
    go = end()
    suspects = fleet.put(
        "tests.worker.tasks.until", "s", str(go), count=3, suspect=True, attempt=1
    )
    plain = fleet.put("tests.tasks.mark", "plain", count=5)
    worker = fleet.started("--max-in-flight", "6")
    fleet.wait_for_run("s")
    fleet.wait_for_run("plain", 5)
    fleet.wait(
        "SELECT bool_and(state = 'succeeded') FROM django_jobs_job WHERE id = ANY (%s)", plain
    )
    assert 1 == fleet.value("SELECT count(*) FROM django_jobs_lease")
    second = fleet.started("--max-in-flight", "6")
    fleet.wait_for_run("s", 2)
    assert [1, 1] == fleet.rows("SELECT count(*) FROM django_jobs_lease GROUP BY worker")
    go.touch()
    fleet.wait_for_all()
    assert 3 == fleet.ran("s")
    assert not any(fleet.job(pk).suspect for pk in suspects)
    failing = fleet.put_one("tests.worker.tasks.fail", suspect=True, backoff_base=100)
    fleet.ring()
    fleet.wait_for_state(failing, "scheduled")
    assert not fleet.job(failing).suspect
    assert [0, 0] == [fleet.stop(each) for each in (worker, second)]
