"""Explain why a job is not running, and how its queue fares, by the predicates of the claim.

Live, in a handful of statements, none of which grows with the backlog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from django.db.models import Exists, OuterRef

from django_jobs.conf import InvalidOption, Options
from django_jobs.models import Job, Skip, Worker
from django_jobs.operations.explain import hosts, verdict
from django_jobs.operations.explain.checks import Case
from django_jobs.operations.explain.explanation import (
    Explanation,
    HostLine,
    JobFacts,
    LeaseFacts,
    Pause,
    QueueExplanation,
)
from django_jobs.operations.explain.holders import key_facts, use_of
from django_jobs.operations.explain.kin import Relatives, kin_of
from django_jobs.operations.explain.limited import KeyFacts, Use
from django_jobs.operations.explain.words import some
from django_jobs.operations.place import needs_of
from django_jobs.placement import Mismatch, Needs, Reason, mismatches
from django_jobs.sql import Row, SiteDatabase
from django_jobs.states import FINAL, JobState

COUNTED = 1000  # jobs ahead that are counted
READY_COUNTED = 10_001  # ready jobs of a queue that are counted
ANYWHERE = Needs()


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """An operator's word on a queue, and its backlog."""

    pause: Pause | None
    override: int | None
    ready: int
    oldest_seconds: float | None
    now: datetime

    @property
    def has_no_slots(self) -> bool:
        """Whether an operator gave it none."""
        return self.override == 0


def explain(job_id: int, *, database: str) -> Explanation:
    """Say why the job is not running, for every host; raise ``Job.DoesNotExist``.

    A job that has ended or runs gets its verdict alone.
    """
    job, lease, key, now = _job(job_id, database=database)
    if job.state in FINAL or (job.state == JobState.RUNNING and not verdict.is_lost(lease, now)):
        told = verdict.of_state(job, lease)
        return Explanation(job=job, verdict=told, checks=(), hosts=(), now=now, lease=lease)
    queue = _queue(job.backend, job.queue, counted=1, database=database)
    lines = _lines(job, queue, database=database)
    case = Case(
        job=job, lease=lease, pause=queue.pause, hosts=lines,
        ahead=_ahead(job, database=database), most_ahead=COUNTED,
        has_no_slots=queue.has_no_slots, now=now, parents=_parents(job, database=database),
        key=key, use=_use(job, key, now, database=database),
    )  # fmt: skip
    told, checks = verdict.judge(case)
    return Explanation(
        job=job, verdict=told, checks=checks, hosts=tuple(lines), now=now, lease=lease
    )


def explain_queue(backend: str, name: str, *, database: str) -> QueueExplanation:
    """Say whether a queue is served, and by whom; of its backlog so much as is counted.

    It is judged for jobs that ask what the settings say of the queue, and no more.
    """
    queue = _queue(backend, name, counted=READY_COUNTED, database=database)
    needs = _default_needs(backend, name)
    found = _workers(backend, name, queue, needs, (), suspect=False, database=database)
    lines = [line for line in found if not _is_elsewhere(line)]
    return QueueExplanation(
        backend=backend,
        name=name,
        verdict=verdict.of_queue(
            backend,
            name,
            needs,
            pause=queue.pause,
            hosts=found,
            has_no_slots=queue.has_no_slots,
        ),
        pause=queue.pause,
        hosts=tuple(lines),
        ready=queue.ready,
        is_more=queue.ready >= READY_COUNTED,
        oldest_seconds=queue.oldest_seconds,
        now=queue.now,
    )


def _default_needs(backend: str, name: str) -> Needs:
    """Return what jobs of the queue ask that say nothing themselves."""
    try:
        asked = Options(backend).requires(name)
    except InvalidOption:  # a check tells it
        return ANYWHERE
    return ANYWHERE if asked is None else Needs(requires=asked)


def _is_elsewhere(line: HostLine) -> bool:
    return Reason.QUEUE_NOT_SERVED in line.reasons


# what is read


def _job(
    job_id: int, *, database: str
) -> tuple[JobFacts, LeaseFacts | None, KeyFacts | None, datetime]:
    rows = SiteDatabase(database).fetch("explain_job", {"job": job_id})
    if not rows:
        raise Job.DoesNotExist(f"There is no job {job_id}.")
    [row] = rows
    now: datetime = row[-1]
    job = JobFacts(*(*row[:15], _needs(row[6], row[15:20])))
    return job, _lease(row[20:28], row[38:40], now), _key(job, row[28:38]), now


def _needs(placement: int, row: Row) -> Needs | None:
    """Return what a placement asks; None: that cannot be read, and no worker takes it."""
    if placement == 0:
        return ANYWHERE
    pk, *said = row
    try:
        return None if pk is None else needs_of(*said)
    except ValueError:
        return None


def _lease(row: Row, late: Row, now: datetime) -> LeaseFacts | None:
    until, worker, name, pid, *columns = row
    if until is None:
        return None
    health = "gone" if name is None else hosts.health_of(columns, now=now)
    return LeaseFacts(until, worker, hosts.label_of(name, pid, worker), health, *late)


def _queue(backend: str, name: str, *, counted: int, database: str) -> QueueFacts:
    params = {"backend": backend, "queue": name, "counted": counted}
    [row] = SiteDatabase(database).fetch("explain_queue", params)
    paused, by, why, since, until, override, ready, oldest, now = row
    pause = Pause(by=by, reason=why, since=since, until=until) if paused else None
    return QueueFacts(pause, override, ready, oldest, now)


def _ahead(job: JobFacts, *, database: str) -> int | None:
    """Count ready jobs that are taken first, up to COUNTED + 1; None: it is not ready."""
    if job.state != JobState.READY:
        return None
    params = {
        "backend": job.backend, "queue": job.queue, "placement": job.placement,
        "suspect": job.suspect, "urgency": -job.priority, "job": job.id, "counted": COUNTED + 1,
    }  # fmt: skip
    [(ahead,)] = SiteDatabase(database).fetch("explain_ahead", params)
    return int(ahead)


def _key(job: JobFacts, row: Row) -> KeyFacts | None:
    return key_facts(row, is_blocked=job.state == JobState.BLOCKED)


def _parents(job: JobFacts, *, database: str) -> Relatives:
    if job.state != JobState.WAITING:
        return Relatives()
    return kin_of(job.id, after_failure=job.after_failure, database=database).parents


def _use(job: JobFacts, key: KeyFacts | None, now: datetime, *, database: str) -> Use:
    """Return who has the places that a job is to have one of."""
    if key is None or job.state in (JobState.WAITING, JobState.RUNNING):
        return Use()
    return use_of(key, job, now=now, database=database)


def _skips(job: JobFacts, *, database: str) -> dict[str, Skip]:
    """Return host → what it wrote down about the placement, those with a worker first.

    A host whose workers are all stopped, or of another backend, has no word here.
    """
    if job.placement == 0:
        return {}
    workers = Worker.objects.using(database).filter(name=OuterRef("host"))
    rows = Skip.objects.using(database).filter(placement=job.placement)
    here = Exists(workers.filter(backend=job.backend).unstopped())
    rows = rows.alias(elsewhere=Exists(workers)).annotate(here=here)
    rows = rows.exclude(elsewhere=True, here=False).order_by("-here", "host")
    return {skip.host: skip for skip in rows[: hosts.MOST]}


# what each host would say


def _lines(job: JobFacts, queue: QueueFacts, *, database: str) -> list[HostLine]:
    skips = _skips(job, database=database)
    unknowing = [host for host, skip in skips.items() if skip.reason == Reason.UNKNOWN_TASK]
    lines = _workers(
        job.backend, job.queue, queue, job.needs, unknowing,
        suspect=job.suspect, database=database,
    )  # fmt: skip
    named = {line.host for line in lines}
    lines = [_with_record(line, skips.get(line.host)) for line in lines]
    lines += [_only_recorded(skip) for host, skip in skips.items() if host not in named]
    return lines[: hosts.MOST]


def _workers(
    backend: str,
    name: str,
    queue: QueueFacts,
    needs: Needs | None,
    unknowing: Sequence[str],
    *,
    suspect: bool,
    database: str,
) -> list[HostLine]:
    """Return a line for each worker, live ones first."""
    workers = hosts.reporting(backend, queue=name, database=database)
    held = hosts.held_by(workers, queue=name, database=database)
    lines = []
    for worker in workers:
        now = hosts.state_of(
            worker, held.get(worker.pk, hosts.Held()),
            queue=name, paused=queue.pause is not None, override=queue.override,
        )  # fmt: skip
        host = hosts.host_of(worker, without=unknowing)
        lines.append(_line(worker, list(_why(needs, host, now, suspect=suspect))))
    return lines


def _why(needs: Needs | None, host: Any, now: Any, *, suspect: bool) -> Iterator[Mismatch]:
    """Yield all mismatches; a placement that nobody can read fits nowhere."""
    if needs is None:
        yield Mismatch(Reason.HOST, "its placement cannot be read")
    yield from mismatches(needs or ANYWHERE, host, now, suspect=suspect)


def _line(worker: Any, why: list[Mismatch]) -> HostLine:
    health = worker.health_at(worker.now)
    silent = health in ("late", "gone")
    serves = None if worker.queues is None else tuple(map(str, worker.queues))
    told = groupby(why, lambda each: each.reason)
    why = [_of_one(reason, [each.detail for each in found], serves) for reason, found in told]
    first = None if silent or not why else why[0]
    return HostLine(
        host=worker.name,
        worker=worker.pk,
        label=str(worker),
        health=health,
        reason=health if silent else (first.reason if first else None),
        detail=first.detail if first else "",
        also=tuple(why if silent else why[1:]),
        serves=serves,
    )


def _of_one(reason: Reason, details: Sequence[str], serves: tuple[str, ...] | None) -> Mismatch:
    """Return all that a host says for one reason; of a queue, what it serves instead."""
    if reason == Reason.QUEUE_NOT_SERVED:
        return Mismatch(reason, f"serves {some(serves or ()) or 'no queue'}")
    return Mismatch(reason, ", ".join(filter(None, details)))


def _with_record(line: HostLine, skip: Skip | None) -> HostLine:
    """Say since when its host says so, if it has written that down."""
    if skip is None or line.reason != skip.reason:
        return line
    return replace(line, since=skip.since, recorded=True)


def _only_recorded(skip: Skip) -> HostLine:
    """Return the line of a host without a worker; a later version's code is only text."""
    known = skip.reason in Reason._value2member_map_
    return HostLine(
        host=skip.host, worker=None, label=skip.host, health="gone",
        reason=Reason(skip.reason) if known else "gone",
        detail=skip.detail if known else skip.reason,
        since=skip.since, recorded=True,
    )  # fmt: skip
