"""Everything that the page of one job shows, read in a handful of statements."""

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
from django_jobs.admin.bounded import in_time
from django_jobs.admin.cells import due, ready_since, requeued_at
from django_jobs.admin.explained import Hosts, check_rows, hosts
from django_jobs.admin.moments import duration, marked, took, when
from django_jobs.admin.pretty import pretty, stored
from django_jobs.admin.progress import bar, progress_text, timeout
from django_jobs.admin.queue_figures import Name
from django_jobs.admin.queue_page import may_pause, resume_button
from django_jobs.admin.relations import relations
from django_jobs.admin.timeline import entries, events_of, started_once, worker_names
from django_jobs.admin.verbs import VERBS, Button
from django_jobs.models import Job, Lease
from django_jobs.operations.explain import explain
from django_jobs.operations.explain.explanation import Explanation, Verdict
from django_jobs.operations.explain.kin import kin_of
from django_jobs.states import JobState

JSON = ("args", "kwargs", "result", "metadata")
TIMES = (
    "run_after",
    "expires_at",
    "reserved_at",
    "cancel_asked_at",
    "scheduled_for",
)  # Python may be unable to hold them
SHORT_ERROR = 600
WAITS = frozenset({JobState.READY, JobState.SCHEDULED})  # for a worker, so nobody holds it
DETAILED = frozenset({"running", "succeeded", "dropped", "unknown"})  # more than the verdict says
NAMED = {"run_now": "run", "requeue": "requeue"}  # a verdict's remedy → the verb


def find(pk: int, *, database: str) -> Job | None:
    """Return a job whose JSON is read as text, with the database's time, or None."""
    more: dict[str, Any] = {f"{name}_text": stored(name) for name in JSON}
    more |= {"requeued_at": requeued_at(), "due": due(), "expires": due("expires_at")}
    more |= {"asked": due("cancel_asked_at"), "occurrence": due("scheduled_for")}
    jobs = Job.objects.using(database).defer(*TIMES, *JSON).annotate(now=Now(), **more)
    return jobs.filter(pk=pk).first()


def explained(pk: int, *, database: str) -> Explanation | None:
    """Return why a job is not running; None when that took too long."""
    return in_time(lambda: explain(pk, database=database), database)


def context(
    job: Any,
    *,
    link: Callable[[UUID, str], str],
    queue: str,
    limit: str,
    schedule: str,
    site: admin.AdminSite,
    database: str,
) -> dict[str, Any]:
    """Return what the page shows of a job.

    ``link`` makes a worker's name lead to it; ``queue``, ``limit`` and ``schedule`` are what
    it says of its queue, its limit and its schedule, or links.
    """
    explanation = explained(job.pk, database=database)
    lease = _lease(job, database=database)
    events, left_out = events_of(job.pk, database=database)
    found = worker_names(events, lease.worker if lease else None, database=database)
    names = {pk: link(pk, name) for pk, name in found.items()}
    kin = kin_of(job.pk, after_failure=job.after_failure, database=database)
    return {
        "job": job,
        "partial": _partial(known(job.state)),
        "badge": state_badge(job.state),
        "age": _age(job),
        "verdict": explanation.verdict if explanation else None,
        "checks": check_rows(explanation.checks) if explanation else [],
        "hosts": hosts(explanation.hosts, link=link, now=job.now) if explanation else Hosts(),
        "error": (job.error or "")[:SHORT_ERROR],
        "lease_ends": when(lease.expires_at, now=job.now) if lease else "",
        "progress": bar(lease.said) if lease else "",
        "overdue": when(lease.timed_out_at, now=job.now) if lease else "",
        "took": _took(job),
        "lapsed": _lapsed(job, lease),
        "holder": names.get(lease.worker, str(lease.worker)) if lease else "",
        "facts": _facts(job, queue, _required(explanation), limit, schedule),
        "relations": relations(kin, site),
        "timeline": entries(job, events, names, now=job.now),
        "left_out": left_out,
        "documents": _documents(job),
    }


def _partial(state: str) -> str:
    return f"admin/django_jobs/partials/_{state}.html" if state in DETAILED else ""


def _lease(job: Job, *, database: str) -> Any:
    """Return the job's lease, what its run says of itself as text, or None."""
    if job.finished_at is not None or job.state in WAITS:
        return None
    leases = Lease.objects.using(database).defer("progress").annotate(said=progress_text())
    return leases.filter(job_id=job.pk).first()


def _required(explanation: Explanation | None) -> str:
    """Say what the job asks of a host, if anything."""
    needs = explanation.job.needs if explanation else None
    return "" if needs is None or needs.is_anywhere else str(needs)


def _age(job: Any) -> SafeString | str:
    """Say how long it has been in its state, or when it is due."""
    match job.state:
        case "running":
            at, words = job.last_attempted_at, _("for %s")
        case "scheduled":
            late = job.due and job.due <= job.now
            at, words = job.due, _("was due %s ago") if late else _("due in %s")
        case "ready":
            at, words = ready_since(job), _("for %s")
        case _ if job.finished_at:
            at, words = job.finished_at, _("%s ago")
        case _:
            at, words = job.enqueued_at, _("for %s")
    return "" if at is None else marked(at, words % duration(abs((job.now - at).total_seconds())))


def _lapsed(job: Any, lease: Lease | None) -> bool:
    return lease is not None and lease.expires_at <= job.now


def _took(job: Any) -> str:
    """Say how long the latest attempt has run, or ran."""
    if job.last_attempted_at is None:
        return ""
    end = job.finished_at or job.now
    return took(max((end - job.last_attempted_at).total_seconds(), 0.0))


def _facts(
    job: Any, queue: str, required: str, limit: str, schedule: str
) -> list[tuple[str, Any]]:
    """Name what the row says, in the order in which people ask."""
    once = started_once(job)
    facts = [
        (_("Task"), job.task),
        (_("Schedule"), schedule),
        (_("Queue"), queue),
        (_("Requires"), required),
        (_("Limit"), limit),
        (_("Unique key"), job.unique_key or ""),
        (_("Priority"), job.priority),
        (_("Attempt"), _("%(attempt)d of %(most)d") % {
            "attempt": job.attempt, "most": job.max_attempts,
        }),
        (_("Timeout"), timeout(job.timeout)),
        (_("Life"), job.life if job.life > 1 else ""),
        (_("Backend"), job.backend),
        (_("Enqueued"), when(job.enqueued_at, now=job.now)),
        (_("Requeued"), when(job.requeued_at, now=job.now)),
        (_("Was due") if job.finished_at else _("Due"), when(job.due, now=job.now)),
        (_("Expires"), _expires(job)),
        (_("First started"), "" if once else when(job.started_at, now=job.now)),
        (_("Started") if once else _("Last started"), when(job.last_attempted_at, now=job.now)),
        (_("Asked to end"), when(job.asked, now=job.now)),
        (_("Finished"), when(job.finished_at, now=job.now)),
        (_("Suspect"), _("yes: its worker died while it ran") if job.suspect else ""),
        (_("Idempotent"), "" if job.idempotent else _("no: never run twice")),
        (_("Error group"), job.fingerprint or ""),
    ]  # fmt: skip
    return [(name, value) for name, value in facts if value != ""]


def _expires(job: Any) -> str:
    """Say when it would have to have started; that matters until it has, or was too late."""
    if job.started_at is not None or (job.finished_at is not None and job.state != "expired"):
        return ""
    return when(job.expires, now=job.now)


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


def buttons(
    request: HttpRequest, job: Job, verdict: Verdict | None, site: admin.AdminSite
) -> list[Button]:
    """Return what this user may do about the job as it is, what the verdict names first."""
    remedy = verdict.remedy if verdict else None
    found = [
        Button(
            title=f"{verb.title}" if verb.at_once else f"{verb.title}…",
            url=_url(site, f"job_{verb.name}_one", job.pk),
            named=NAMED.get(remedy or "") == verb.name,
            danger=verb.needs_reason,
        )
        for verb in VERBS
        if job.state in verb.states and verb.allowed(request)
    ]
    if remedy == "resume" and may_pause(request):
        return [resume_button(Name(job.backend, job.queue), site, job=job.pk), *found]
    return found


def _url(site: admin.AdminSite, name: str, *args: object) -> str:
    return reverse(f"admin:django_jobs_{name}", args=args, current_app=site.name)
