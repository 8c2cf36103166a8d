"""Does somebody run the jobs: workers, queues, tasks, schedules, limits?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models.functions import Now

from django_jobs.models import Placement, Schedule, Worker
from django_jobs.operations.doctor.finding import Exam, Finding, named, span
from django_jobs.operations.queue_state import QueueState
from django_jobs.sql import SiteDatabase

MOST = 500  # rows of a kind that are read
COUNTED = 1000  # ready jobs of a queue
LATE_SECONDS = 60.0  # that a schedule may be late: a worker that restarts is no fault
LOOKED = 100_000  # limits
START = "Start one: manage.py jobworker"


def workers(exam: Exam) -> Iterator[Finding]:
    """Look who is alive, and whether all run the same version."""
    found = _workers(exam)
    by_health: dict[str, list[str]] = {}
    for row, health in found:
        by_health.setdefault(health, []).append(str(row))
    facts = {health: len(names) for health, names in by_health.items()}
    live = by_health.get("live", []) + by_health.get("draining", [])
    if not live:
        sentence = f"No worker of {exam.backend!r} is live: none of its jobs will run."
        yield Finding("workers", "error", sentence, f"{START}{_backend(exam)}", facts)
    else:
        yield Finding("workers", "ok", f"Live workers, {len(live)}: {named(live)}.", "", facts)
    if late := by_health.get("late", []):
        sentence = f"Workers have not been heard of for two renewals: {named(late)}."
        cure = "Look at their logs; a host that is overloaded or cut off looks like this."
        yield Finding("workers", "warning", sentence, cure, facts)
    versions = sorted({row.version for row, health in found if health == "live"})
    if len(versions) > 1:
        sentence = f"Live workers are of {len(versions)} versions: {named(versions)}."
        cure = "Restart the older ones, unless a rollout is under way."
        yield Finding("versions", "warning", sentence, cure, {"versions": versions})


def _workers(exam: Exam) -> list[tuple[Any, str]]:
    rows: Any = Worker.objects.using(exam.database).filter(backend=exam.backend).unstopped()
    return [(row, row.health_at(row.now)) for row in rows.last_heard_of_first()[:MOST]]


def _backend(exam: Exam) -> str:
    return "" if exam.backend == "default" else f" --backend {exam.backend}"


def queues(exam: Exam) -> Iterator[Finding]:
    """Look for queues in which jobs are ready and which no live worker serves."""
    rows = [row for row in _queues(exam) if row.backend == exam.backend and row.ready]
    unserved = [row for row in rows if not row.workers]
    for row in unserved:
        count = f"{COUNTED:,}+" if row.ready > COUNTED else f"{row.ready:,}"
        sentence = (
            f"No live worker serves {row.name!r}: {count} jobs are ready, the oldest for"
            f" {span(row.age or 0.0)}."
        )
        facts = {"queue": row.name, "ready": row.ready, "paused": row.paused}
        cure = f"{START}{_backend(exam)} --queue {row.name}"
        yield Finding("queues", "error", sentence, cure, facts)
    for row in rows:
        if row.paused and row.workers:
            by = row.paused_by or "somebody"
            sentence = f"{row.name!r} is paused by {by}, and jobs wait in it."
            cure, facts = "Resume it when it may go on.", {"queue": row.name}
            yield Finding("queues", "warning", sentence, cure, facts)
    if not unserved:
        sentence = f"A live worker serves each queue in which jobs are ready: {len(rows)}."
        yield Finding("queues", "ok", sentence)


def _queues(exam: Exam) -> list[QueueState]:
    names = [(exam.backend, name) for name in exam.options.queue_names]
    site = SiteDatabase(exam.database)
    return QueueState.read(names, counted=COUNTED, most=MOST, database=site)


def _seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)


def tasks(exam: Exam) -> Iterator[Finding]:
    """Look for tasks of waiting jobs that no live worker knows."""
    rows = Placement.objects.using(exam.database).filter(unknown_since__isnull=False)
    found = rows.annotate(now=Now()).order_by("pk")[:MOST]
    for row in found:
        since = span(_seconds(row.unknown_since, row.now))
        sentence = f"No live worker has known the task {row.task} for {since}."
        cure = "Deploy the code that has it, or cancel its jobs."
        yield Finding("tasks", "error", sentence, cure, {"task": row.task})
    if not found:
        yield Finding("tasks", "ok", "Live workers know the tasks of all jobs that are ready.")


def schedules(exam: Exam) -> Iterator[Finding]:
    """Look for schedules that are late, and whether a worker fires them."""
    rows = Schedule.objects.using(exam.database).filter(
        backend=exam.backend, gone_at__isnull=True, disabled_at__isnull=True, enabled=True
    )
    found = list(rows.annotate(now=Now()).order_by("next_at")[:MOST])
    if not found:
        yield Finding("schedules", "ok", "There are no schedules that could be due.")
        return
    late = [row for row in found if _seconds(row.next_at, row.now) > LATE_SECONDS]
    facts = {"late": [row.name for row in late]}
    fires = any(row.cron and health == "live" for row, health in _workers(exam))
    if not fires:
        sentence = f"No live worker fires the schedules; {len(late)} are late."
        cure = f"{START}{_backend(exam)}, without --no-cron"
        yield Finding("schedules", "error" if late else "warning", sentence, cure, facts)
    elif late:
        sentence = f"Schedules are late although a worker fires them: {named(facts['late'])}."
        cure = "See its log: it has another version of them, or their jobs cannot be enqueued."
        yield Finding("schedules", "error", sentence, cure, facts)
    else:
        yield Finding("schedules", "ok", f"A worker fires {len(found)} schedules; none is late.")


def limits(exam: Exam) -> Iterator[Finding]:
    """Look for limits whose permits in use are not what the leases say."""
    rows = exam.fetch("doctor_limits", looked=LOOKED, most=MOST)
    for key, said, held in rows:
        sentence = f"The limit {key!r} says that {said} permits are in use; leases hold {held}."
        cure = "A live worker counts it anew within minutes; if not, see the sweeper's log."
        yield Finding(
            "limits", "warning", sentence, cure, {"key": key, "said": said, "held": held}
        )
    if not rows:
        yield Finding("limits", "ok", "The permits in use are what the leases say.")
