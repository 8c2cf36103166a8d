"""Workers free what waits for the jobs that they end, and cancel what a failure dooms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
from django.db.models.functions import Now

from django_jobs import chain, group
from django_jobs.compat import task_finished
from django_jobs.models import Dependency, Event, Job
from django_jobs.testing import running_worker
from django_jobs.worker.sweeper import Sweeper
from tests.operations.desk import desks, jobs, lapse
from tests.processes import wait_for
from tests.tasks import boom, ok
from tests.worker.embedded import row, wait_for_ends, wait_for_state

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def told() -> Iterator[Counter[str]]:
    """How often the end of each job was announced."""
    counted: Counter[str] = Counter()

    def note(task_result: Any, **_: object) -> None:
        counted[task_result.id] += 1

    task_finished.connect(note)
    yield counted
    task_finished.disconnect(note)


@pytest.fixture
def unswept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is repaired: what is not freed where it should be waits for ever."""
    monkeypatch.setattr(Sweeper, "_free_strays", lambda _: None)


def stray(*, state: str, **columns: Any) -> Job:
    """Insert a job that waits for one which has ended, as a crash would leave it."""
    [parent] = jobs(state=state, finished_at=Now())
    [child] = jobs(state="waiting", **columns)
    Dependency.objects.create(parent=parent, child=child)
    return Job.objects.get(pk=child)


def test_a_diamond_ends_in_order(unswept: None) -> None:
    with running_worker(max_in_flight=10):
        results = chain(ok.s(0), group([ok.s(n) for n in range(1, 31)]), ok.s(31)).enqueue()
        assert ["succeeded"] * 32 == wait_for_ends(*results)
    root, *middle, last = [cast("Any", row(result)) for result in results]
    for job in middle:
        assert root.finished_at < job.started_at
        assert job.finished_at < last.started_at


def test_what_a_failure_cancels_is_announced_once_each(told: Counter[str], unswept: None) -> None:
    results = chain(boom.s("no"), group([ok.s(1), ok.s(2)]), ok.s(3)).enqueue()
    with running_worker():
        assert ["dead", *["cancelled"] * 3] == wait_for_ends(*results)
        wait_for(lambda: len(told) == 4, what=str(told))
    assert {result.id: 1 for result in results} == told
    assert 3 == Event.objects.filter(kind="cancelled").count()


def test_a_child_of_a_job_that_a_claim_itself_ended_is_cancelled(
    told: Counter[str], unswept: None
) -> None:
    first = ok.using(expires_after=3600).enqueue(1)
    child = ok.using(depends_on=[first]).enqueue(2)
    Job.objects.filter(pk=first.id).update(expires_at=Now() - timedelta(seconds=1))
    with running_worker():
        assert ["expired", "cancelled"] == wait_for_ends(first, child)
        wait_for(lambda: len(told) == 2, what=str(told))


def test_a_child_of_a_job_that_died_with_its_worker_is_cancelled(
    told: Counter[str], unswept: None
) -> None:
    first = ok.using().enqueue(1)
    child = ok.using(depends_on=[first]).enqueue(2)
    Job.objects.update(max_attempts=1)
    with desks("lost") as [lost]:
        [claimed] = lost.claim()
        with running_worker():
            lapse(claimed.lease)
            assert ["dead", "cancelled"] == wait_for_ends(first, child)
            wait_for(lambda: len(told) == 2, what=str(told))


def test_a_child_whose_time_is_near_starts_at_its_time() -> None:
    first = ok.enqueue(1)
    with running_worker():
        child = ok.using(depends_on=[first], run_after=timedelta(seconds=1)).enqueue(2)
        wait_for_state(child, "succeeded", seconds=5)
    job: Any = row(child)
    assert job.started_at >= job.run_after


@pytest.mark.parametrize(
    ("state", "columns", "expected"),
    [
        ("succeeded", {}, "succeeded"),
        ("dead", {}, "cancelled"),
        ("dead", {"after_failure": True}, "succeeded"),
    ],
)
def test_the_sweeper_frees_what_a_crash_has_left_waiting(
    state: str, columns: dict[str, Any], expected: str, told: Counter[str]
) -> None:
    child = stray(state=state, **columns)
    with running_worker():
        wait_for(lambda: str(child.pk) in told, what=str(told))
    assert expected == Job.objects.get(pk=child.pk).state
    assert {str(child.pk): 1} == told


def test_a_child_that_is_enqueued_as_its_parent_ends_is_never_stranded() -> None:
    with running_worker(max_in_flight=20):
        children = []
        for number in range(200):
            first = ok.enqueue(number)
            children.append(ok.using(depends_on=[first]).enqueue(number))
        assert {"succeeded"} == set(wait_for_ends(*children, seconds=20))
