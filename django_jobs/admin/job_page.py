"""Everything that the page of one job shows, read in five statements at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_jobs.admin.badges import known, state_badge
from django_jobs.admin.cells import ready_since, requeued_at
from django_jobs.admin.health import is_served
from django_jobs.admin.moments import duration, marked, took, when
from django_jobs.admin.pretty import pretty, stored
from django_jobs.admin.timeline import entries, events_of, started_once, worker_names
from django_jobs.admin.verbs import VERBS
from django_jobs.models import Job, Lease
from django_jobs.states import FINAL, JobState

JSON = ("args", "kwargs", "result", "metadata")
SHORT_ERROR = 600
WAITS = frozenset({JobState.READY, JobState.SCHEDULED})  # for a worker, so nobody holds it


def find(pk: int, *, database: str) -> Job | None:
    """Return a job whose JSON is read as text, with the database's time, or None."""
    more: dict[str, Any] = {f"{name}_text": stored(name) for name in JSON}
    more["requeued_at"] = requeued_at()
    jobs = Job.objects.using(database).defer(*JSON).annotate(now=Now(), **more)
    return jobs.filter(pk=pk).first()


def context(job: Any, *, link: Callable[[UUID, str], str], database: str) -> dict[str, Any]:
    """Return what the page shows of a job; ``link`` makes a worker's name lead to it."""
    lease = _lease(job, database=database)
    events, left_out = events_of(job.pk, database=database)
    found = worker_names(events, lease.worker if lease else None, database=database)
    names = {pk: link(pk, name) for pk, name in found.items()}
    return {
        "job": job,
        "partial": f"admin/django_jobs/partials/_{known(job.state)}.html",
        "badge": state_badge(job.state),
        "error": (job.error or "")[:SHORT_ERROR],
        "times": _times(job, lease),
        "took": _took(job),
        "unserved": _unserved(job, database=database),
        "lapsed": _lapsed(job, lease),
        "holder": names.get(lease.worker, str(lease.worker)) if lease else "",
        "facts": _facts(job),
        "timeline": entries(job, events, names, now=job.now),
        "left_out": left_out,
        "documents": _documents(job),
    }


def _lease(job: Job, *, database: str) -> Lease | None:
    if job.finished_at is not None or job.state in WAITS:
        return None
    return Lease.objects.using(database).filter(job_id=job.pk).first()


def _times(job: Any, lease: Lease | None) -> dict[str, SafeString | str]:
    names = ("enqueued_at", "run_after", "started_at", "last_attempted_at", "finished_at")
    times = {name: when(getattr(job, name), now=job.now) for name in names}
    times["ready"] = _waits(job) if job.state == JobState.READY else ""
    return {**times, "lease": when(lease.expires_at, now=job.now) if lease else ""}


def _waits(job: Any) -> SafeString:
    since = ready_since(job)
    return marked(since, duration(max((job.now - since).total_seconds(), 0.0)))


def _unserved(job: Any, *, database: str) -> bool:
    """Tell whether a job waits and nobody is there to claim it."""
    if job.state not in WAITS:
        return False
    return not is_served(job.queue, backend=job.backend, database=database)


def _lapsed(job: Any, lease: Lease | None) -> bool:
    return lease is not None and lease.expires_at <= job.now


def _took(job: Any) -> str:
    """Say how long the latest attempt has run, or ran."""
    if job.last_attempted_at is None:
        return ""
    end = job.finished_at or job.now
    return took(max((end - job.last_attempted_at).total_seconds(), 0.0))


def _facts(job: Any) -> list[tuple[str, Any]]:
    """Name what the row says, in the order in which people ask."""
    once = started_once(job)
    facts = [
        (_("Task"), job.task),
        (_("Queue"), job.queue),
        (_("Priority"), job.priority),
        (_("Attempt"), _("%(attempt)d of %(most)d") % {
            "attempt": job.attempt, "most": job.max_attempts,
        }),
        (_("Life"), job.life if job.life > 1 else ""),
        (_("Backend"), job.backend),
        (_("Enqueued"), when(job.enqueued_at, now=job.now)),
        (_("Requeued"), when(job.requeued_at, now=job.now)),
        (_("Was due") if job.finished_at else _("Due"), when(job.run_after, now=job.now)),
        (_("First started"), "" if once else when(job.started_at, now=job.now)),
        (_("Started") if once else _("Last started"), when(job.last_attempted_at, now=job.now)),
        (_("Finished"), when(job.finished_at, now=job.now)),
        (_("Suspect"), _("yes: its worker died while it ran") if job.suspect else ""),
        (_("Idempotent"), "" if job.idempotent else _("no: never run twice")),
        (_("Error group"), job.fingerprint or ""),
    ]  # fmt: skip
    return [(name, value) for name, value in facts if value != ""]


def _documents(job: Any) -> list[tuple[str, Any]]:
    """Return the JSON texts that say something, under their names."""
    named = {
        _("Arguments"): job.args_text,
        _("Keyword arguments"): job.kwargs_text,
        _("Result"): job.result_text,
        _("Metadata"): job.metadata_text,
    }
    empty = (None, "[]", "{}")
    return [(name, pretty(text)) for name, text in named.items() if text not in empty]


def verbs(request: HttpRequest, job: Job, site: admin.AdminSite) -> list[dict[str, Any]]:
    """Return the buttons of what this user may do to the job as it is."""
    if job.state not in FINAL:
        return []
    return [
        {
            "verb": verb,
            "url": reverse(
                f"admin:django_jobs_job_{verb.name}_one", args=[job.pk], current_app=site.name
            ),
        }
        for verb in VERBS
        if verb.allowed(request)
    ]
