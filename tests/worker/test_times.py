"""No time that a task asks for, or that a row holds, stops a worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from django_jobs import RetryJob, SnoozeJob, task
from django_jobs.models import Job
from django_jobs.testing import running_worker
from tests.processes import wait_for
from tests.tasks import ok
from tests.worker.embedded import row, wait_for_ends, wait_for_state

pytestmark = pytest.mark.django_db(transaction=True)

PAUSES: dict[str, Any] = {
    "1e12": 1e12,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "negative": -5,
    "10**400": 10**400,
    "timedelta.max": timedelta.max,
    "timedelta.min": timedelta.min,
    "short timedelta": timedelta(seconds=0.01),
    "text": "soon",
}
UNTIL: dict[str, Any] = {
    "datetime.min": datetime.min.replace(tzinfo=UTC),
    "datetime.max": datetime.max.replace(tzinfo=UTC),
    "naive datetime.min": datetime.min,  # noqa: DTZ901 - as a task may say it
    "naive datetime.max": datetime.max,  # noqa: DTZ901
    "timedelta.min": timedelta.min,
    "timedelta.max": timedelta.max,
    "1e300": 1e300,
}
PAST = {"negative", "-inf", "timedelta.min", "datetime.min", "naive datetime.min"}  # is at once
snoozed: set[str] = set()


def pause_of(error: BaseException, _result: Any) -> Any:
    return PAUSES[str(error)]


@task(max_attempts=2, backoff=pause_of)
def fail_with_a_backoff_of(name: str) -> None:
    raise ValueError(name)


@task(max_attempts=2)
def ask_retry_after(name: str) -> None:
    raise RetryJob(after=PAUSES[name])


@task(max_attempts=2)
def snooze_until(name: str) -> None:
    if name not in snoozed:  # the second time it ends
        snoozed.add(name)
        raise SnoozeJob(until=UNTIL[name])


@pytest.mark.parametrize(
    ("bad", "names"),
    [
        (fail_with_a_backoff_of, list(PAUSES)),
        (ask_retry_after, ["1e12", "negative", "timedelta.max", "timedelta.min"]),
        (snooze_until, list(UNTIL)),
    ],
    ids=["backoff", "RetryJob", "SnoozeJob"],
)
def test_no_time_that_a_task_asks_for_stops_a_worker_or_makes_a_row_unreadable(
    bad: Any, names: list[str]
):
    snoozed.clear()
    with running_worker(drain_seconds=1, max_in_flight=3):
        jobs = {name: bad.enqueue(name) for name in names}
        for name, job in jobs.items():
            at_once = name in PAST or name == "short timedelta"
            wait_for_state(job, *(("dead", "succeeded") if at_once else ("scheduled",)))
        assert ["succeeded"] == wait_for_ends(ok.enqueue())
    for name, job in jobs.items():
        kept = row(job)
        assert kept.run_after is None or 2000 < kept.run_after.year < 2200, name
        own = (f"ValueError: {name}", "RetryJob: retry asked for by the task", None)
        assert kept.error in own, name
        assert bad.get_result(job.id).id == job.id


@pytest.mark.parametrize("state", ["ready", "scheduled"])
def test_a_time_that_python_cannot_hold_stops_no_worker(state: str):
    times = ["infinity", "-infinity", "20000-01-01", "4000-01-01 BC"]
    jobs = [ok.using(queue_name="mail").enqueue() for _ in times]
    with connection.cursor() as cursor:
        for job, when in zip(jobs, times, strict=True):
            cursor.execute(
                "UPDATE django_jobs_job SET state = %s, run_after = %s WHERE id = %s",
                [state, when, job.id],
            )
    due = [not (state == "scheduled" and when in ("infinity", "20000-01-01")) for when in times]
    with running_worker(drain_seconds=1):
        later = ok.using(run_after=timedelta(seconds=0.2)).enqueue()
        assert ["succeeded"] == wait_for_ends(later)
        wait_for(
            lambda: [state_of(job) == "succeeded" for job in jobs] == due,
            what=f"{[state_of(job) for job in jobs]}",
        )


def state_of(job: Any) -> str:
    """Read the one column that can be read."""
    return str(Job.objects.values_list("state", flat=True).get(pk=int(job.id)))
