"""Real workers take what they fit, hold what it asks for, and leave the rest to others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import Client

from django_jobs import Requires
from django_jobs.models import Event, Job, Lease, Placement, Skip, Worker
from django_jobs.operations.act import Actor
from django_jobs.operations.pause import pause
from django_jobs.operations.resume import resume
from tests.newer_tasks import work
from tests.processes import JobWorkers, wait_for
from tests.tasks import nap, ok

pytestmark = pytest.mark.subprocess


def jobs(state: str) -> int:
    return Job.objects.filter(state=state).count()


def worker_of(job: Job) -> str:
    return Worker.objects.get(pk=job.worker_ids[-1]).name


@contextmanager
def paused_default() -> Iterator[None]:
    """The queue ``default`` while an operator has paused it."""
    ana = Actor(name="ana", via="api")
    pause("default", backend="default", actor=ana, reason="a look", database="default")
    yield
    resume("default", backend="default", actor=ana, database="default")


def all_idle(count: int) -> bool:
    return Worker.objects.filter(idle=True).count() == count


def test_jobs_run_where_their_labels_are_and_start_at_once(jobworker: JobWorkers):
    """Both sleep when the first job with a new requirement comes."""
    plain = jobworker("--name", "plain")
    gpu = jobworker("--name", "gpu-1", "--label", "gpu")
    wait_for(lambda: all_idle(2), what=plain.log() + gpu.log())
    results = [ok.using(requires=Requires(labels={"gpu"})).enqueue(n) for n in range(20)]
    results += [ok.using(requires=Requires(host="plain")).enqueue(n) for n in range(20)]
    wait_for(lambda: jobs("succeeded") == 40, seconds=5, what="the bell wakes who fits")
    wanted = ["gpu-1"] * 20 + ["plain"] * 20
    assert wanted == [worker_of(Job.objects.get(pk=result.id)) for result in results]
    assert {1} == set(Job.objects.values_list("attempt", flat=True))
    assert not Event.objects.exclude(kind="skipped").exists()
    assert {("plain", "label"), ("gpu-1", "host")} == set(
        Skip.objects.values_list("host", "reason")
    )


def test_what_runs_never_holds_more_than_the_host_has(jobworker: JobWorkers):
    """Two of 4 GB fill 8 GB; a small one beside them runs, for it asks for nothing."""
    big = nap.using(requires=Requires(resources={"memory_mb": 4096}))
    for _ in range(6):
        big.enqueue(0.4)
    jobworker("--resource", "memory_mb=8192", "--max-in-flight", "6")
    seen: set[int] = set()

    def over() -> bool:
        held = Lease.objects.values("job_id")
        seen.add(Job.objects.filter(pk__in=held, placement__gt=0).count())
        return jobs("succeeded") == 6

    wait_for(over, what="six naps")
    assert 2 == max(seen)
    starts: list[Any] = list(Job.objects.values_list("last_attempted_at", "finished_at"))
    overlaps = [sum(begun <= at < ended for begun, ended in starts) for at, _ in starts]
    assert 2 == max(overlaps)


def test_as_many_jobs_with_resources_run_as_there_is_room_for(jobworker: JobWorkers):
    """Though a pass takes one of them: the next pass is at once."""
    for _ in range(30):
        nap.using(requires=Requires(resources={"cpus": 0.1})).enqueue(3)
    jobworker("--resource", "cpus=2", "--max-in-flight", "30", "--queue", "default")
    wait_for(lambda: jobs("running") == 20, seconds=10, what="twenty tenths are two")
    running = Job.objects.filter(state="running").order_by("last_attempted_at")
    first, *_, last = list[Any](running.values_list("last_attempted_at", flat=True))
    assert (last - first).total_seconds() < 2
    assert 10 == jobs("ready")


def test_a_worker_that_is_told_to_run_once_takes_what_it_fits(jobworker: JobWorkers):
    ok.using(requires=Requires(labels={"gpu"})).enqueue(1)
    ok.using(requires=Requires(labels={"tpu"})).enqueue(2)
    once = jobworker("--once", "--label", "gpu")
    assert 0 == once.wait(), once.log()
    assert (1, 1) == (jobs("succeeded"), jobs("ready"))


def host_rows(page: str) -> list[str]:
    """The rows of the page's table of hosts, as text."""
    table = page[page.index("jobs-table-of-hosts") :]
    rows = table[table.index("<tbody>") : table.index("</tbody>")].split("</tr>")
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in rows if "<th" in row]


def test_a_task_that_one_of_two_workers_does_not_know_runs_on_the_other(
    jobworker: JobWorkers, admin_client: Client
):
    """The old one mistakes each of its jobs once at most; none burns an attempt."""
    old = jobworker("--name", "old", DEPLOYED="old")
    wait_for(lambda: all_idle(1), what=old.log())
    results: list[Any] = [work.enqueue(number) for number in range(50)]
    wait_for(lambda: not Job.objects.filter(placement=0).exists(), what=old.log())
    assert 50 == jobs("ready")
    assert {0} == set(Job.objects.values_list("attempt", flat=True))
    assert [("old", "unknown_task", "tests.newer_tasks.work")] == list(
        Skip.objects.values_list("host", "reason", "detail")
    )
    with paused_default():  # so that there is a page of a job that waits with both at hand
        new = jobworker("--name", "new")
        wait_for(lambda: all_idle(2), what=new.log())
        page = admin_client.get(f"/admin/django_jobs/job/{results[0].id}/change/")
        first, second = sorted(host_rows(page.content.decode()))
    assert first.startswith("new"), first
    assert "unknown_task" not in first
    assert second.startswith("old"), second
    assert "unknown_task" in second
    wait_for(lambda: jobs("succeeded") == 50, what=old.log() + new.log())
    for result in results:
        result.refresh()
    assert list(range(50)) == [result.return_value for result in results]
    assert {1} == {result.attempts for result in results}
    assert {"new"} == {worker_of(job) for job in Job.objects.all()}
    mistakes = Event.objects.filter(kind="unknown_task")
    assert 50 == mistakes.count() == mistakes.values("job_id").distinct().count()
    assert 1 == Placement.objects.count()


def test_a_sleeper_that_knows_the_task_is_woken_for_it(jobworker: JobWorkers):
    """It serves another queue first, so the job reaches the old worker and not it."""
    old = jobworker("--name", "old", "--queue", "a", DEPLOYED="old")
    wait_for(lambda: all_idle(1), what=old.log())
    job = int(work.using(queue_name="a").enqueue(1).id)
    wait_for(lambda: Job.objects.get(pk=job).placement, what=old.log())
    new = jobworker("--name", "new", "--queue", "a")
    wait_for(lambda: jobs("succeeded") == 1, what=new.log())
    wait_for(lambda: all_idle(2), what=new.log())
    begun = Job.objects.get(pk=job).finished_at
    again = [int(work.using(queue_name="a").enqueue(n).id) for n in range(10)]
    wait_for(lambda: jobs("succeeded") == 11, seconds=5, what=old.log() + new.log())
    assert {"new"} == {worker_of(Job.objects.get(pk=pk)) for pk in again}
    assert begun is not None
