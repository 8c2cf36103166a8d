"""From what the checks find to one sentence and what helps. No database, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.utils.translation import gettext as _

from django_jobs.operations.explain import checks
from django_jobs.operations.explain.advice import REMEDIES, command_for
from django_jobs.operations.explain.checks import Case, Finding, Fleet, due, moment
from django_jobs.operations.explain.explanation import (
    SENTENCES,
    Check,
    HostLine,
    JobFacts,
    LeaseFacts,
    Pause,
    Situation,
    Verdict,
)
from django_jobs.placement import Needs
from django_jobs.states import JobState

S = Situation
ANYWHERE = Needs()


def is_lost(lease: LeaseFacts | None, now: datetime) -> bool:
    """Tell whether nobody can be believed to run a running job."""
    return lease is None or lease.until <= now or lease.health in ("late", "gone", "stopped")


def judge(case: Case) -> tuple[Verdict, tuple[Check, ...]]:
    """Return the verdict on a job that waits, and every check."""
    job, fleet = case.job, Fleet(case.hosts)
    found = checks.findings(case, fleet)
    first, *others = _blockers(found) or [_unblocked(job)]
    told = Verdict(
        situation=first,
        facts=_facts(job, case.lease, case.pause, fleet),
        then=_after_lease(job, others) if first == S.LOST else None,
        command=None
        if case.has_no_slots
        else command_for({first, *others}, backend=job.backend, queue=job.queue, needs=job.needs),
        remedy=REMEDIES.get(first),
    )
    return _with_next(told, others), tuple(checks.as_checks(found))


def of_state(job: JobFacts, lease: LeaseFacts | None) -> Verdict:
    """Return the verdict on a job that runs or has ended: its state."""
    situation = Situation(job.state)
    facts = _facts(job, lease, None, Fleet(()))
    return Verdict(situation=situation, facts=facts, remedy=REMEDIES.get(situation))


def of_queue(
    backend: str,
    name: str,
    *,
    pause: Pause | None,
    hosts: Sequence[HostLine],
    has_no_slots: bool,
) -> Verdict:
    """Return the verdict on a queue, whatever its jobs ask for."""
    fleet = Fleet(hosts)
    first, *others = _blockers(checks.of_queue(pause, fleet)) or [S.READY]
    told = Verdict(
        situation=first,
        facts={"queue": name, "by": str(pause or ""), "worker": _first(fleet.free)},
        command=None
        if has_no_slots
        else command_for({first, *others}, backend=backend, queue=name, needs=ANYWHERE),
        remedy=REMEDIES.get(first),
    )
    return _with_next(told, others)


def _blockers(found: Sequence[Finding]) -> list[Situation]:
    return [each.fails for each in found if each.fails is not None]


def _unblocked(job: JobFacts) -> Situation:
    """Return the situation of a job that nothing is in the way of."""
    return due(job) if job.state == JobState.SCHEDULED else S.READY


# the words


def _facts(
    job: JobFacts, lease: LeaseFacts | None, pause: Pause | None, fleet: Fleet
) -> dict[str, str]:
    """Return all that a sentence may name."""
    unreadable = _("a placement that cannot be read (%d)") % job.placement
    return {
        "queue": job.queue,
        "task": job.task,
        "state": job.state,
        "attempt": str(job.attempt),
        "max_attempts": str(job.max_attempts),
        "needs": unreadable if job.needs is None else str(job.needs),
        "by": str(pause or ""),
        "run_after": "" if job.run_after is None else moment(job.run_after),
        "worker": _first(fleet.free) if lease is None else lease.label,
    }


def _first(lines: Sequence[HostLine]) -> str:
    return lines[0].label if lines else ""


def _after_lease(job: JobFacts, others: Sequence[Situation]) -> str | None:
    """Say what comes when the lease has lapsed; None: it would wait for ``others``."""
    if job.attempt >= job.max_attempts or not job.idempotent:
        return _("It dies of that when the lease has lapsed.")
    return None if others else _("When the lease has lapsed, a live worker makes it ready again.")


def _with_next(told: Verdict, others: Sequence[Situation]) -> Verdict:
    """Say what would block next, unless something else comes first."""
    if told.then is not None or not others:
        return told
    sentence = str(SENTENCES[others[0]]) % told.facts
    words = (
        _("Even after resuming it would wait: %(sentence)s")
        if told.situation == S.QUEUE_PAUSED
        else _("Even then it would wait: %(sentence)s")
    )
    return replace(told, then=words % {"sentence": sentence})
