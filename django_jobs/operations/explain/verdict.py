"""From what the checks find to one sentence and what helps. No database, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.utils.translation import gettext as _

from django_jobs.operations.explain import checks, kin, limited
from django_jobs.operations.explain.advice import REMEDIES, automatic_labels, command_for
from django_jobs.operations.explain.checks import Case, Finding, Fleet, due
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
from django_jobs.operations.explain.words import moment
from django_jobs.placement import Needs
from django_jobs.states import JobState

S = Situation
WHO_IS_THERE = frozenset({S.QUEUE_NOT_SERVED, S.NO_WORKER_FITS, S.AT_CAPACITY})
OF_A_LIMIT = frozenset({S.BLOCKED, S.LIMIT_STOPPED, S.RATED})


def is_lost(lease: LeaseFacts | None, now: datetime) -> bool:
    """Tell whether nobody can be believed to run a running job."""
    return lease is None or lease.until <= now or lease.health in ("late", "gone", "stopped")


def judge(case: Case) -> tuple[Verdict, tuple[Check, ...]]:
    """Return the verdict on a job that waits, and every check."""
    job, fleet = case.job, Fleet(case.hosts)
    found = checks.findings(case, fleet)
    first, *others = _blockers(found) or [_unblocked(case)]
    if first == S.EXPIRED or (first == S.WAITING and case.parents.failed):
        others = []  # it will never come to them
    told = Verdict(
        situation=first,
        facts=_facts(job, case.lease, case.pause, fleet) | _of_others(case),
        more=_more(case, first) or _instead(found, job.needs, has_no_slots=case.has_no_slots),
        then=_after_lease(job, case.lease, others) if first == S.LOST else None,
        command=None
        if case.has_no_slots
        else command_for({first, *others}, backend=job.backend, queue=job.queue, needs=job.needs),
        remedy=REMEDIES.get(first) if first != S.EXPIRED else None,
    )
    return _with_next(told, others), tuple(checks.as_checks(found))


def _more(case: Case, first: Situation) -> str | None:
    """Say what stands under a sentence that is not about workers."""
    if first == S.QUEUE_PAUSED and case.pause:
        return _since(case.pause)
    if first == S.WAITING:
        return kin.under(case.parents)
    if first == S.EXPIRED:
        return _("The next sweep of a live worker writes that down.")
    if first in OF_A_LIMIT and case.key is not None:
        return limited.under(case.key, case.use, is_blocked=case.job.state == JobState.BLOCKED)
    return None


def of_state(job: JobFacts, lease: LeaseFacts | None) -> Verdict:
    """Return the verdict on a job that runs or has ended: its state."""
    facts = _facts(job, lease, None, Fleet(()))
    if job.state == JobState.RUNNING and lease is not None and lease.timed_out_at is not None:
        return Verdict(situation=S.TIMED_OUT, facts=facts, more=_of_a_late_run())
    situation = Situation(job.state)
    return Verdict(situation=situation, facts=facts, remedy=REMEDIES.get(situation))


def of_queue(
    backend: str,
    name: str,
    needs: Needs,
    *,
    pause: Pause | None,
    hosts: Sequence[HostLine],
    has_no_slots: bool,
) -> Verdict:
    """Return the verdict on a queue whose jobs ask for ``needs``."""
    fleet = Fleet(hosts)
    found = checks.of_queue(pause, needs, fleet)
    first, *others = _blockers(found) or [S.READY]
    told = Verdict(
        situation=first,
        facts={
            "queue": name,
            "by": str(pause or ""),
            "worker": _first(fleet.free),
            "needs": str(needs),
        },
        more=_instead(found, needs, has_no_slots=has_no_slots),
        command=None
        if has_no_slots
        else command_for({first, *others}, backend=backend, queue=name, needs=needs),
        remedy=REMEDIES.get(first),
    )
    return _with_next(told, others)


def _blockers(found: Sequence[Finding]) -> list[Situation]:
    return [each.fails for each in found if each.fails is not None]


def _unblocked(case: Case) -> Situation:
    """Return the situation of a job that nothing is in the way of."""
    return due(case.job, case.key) if case.job.state == JobState.SCHEDULED else S.READY


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
        "worker": _holder(job, lease) or _first(fleet.free),
        "timeout": "?" if lease is None or lease.timeout is None else f"{lease.timeout:g}",
    }


def _of_a_late_run() -> str:
    return _(
        "It has been asked to end, and until it does it keeps its place. Its worker restarts"
        " when a quarter of its places are stuck; restart it now if that cannot wait. What"
        " must end in time runs in a process of its own: isolation=“process”."
    )


def _of_others(case: Case) -> dict[str, str]:
    """Return what a sentence may name of other jobs."""
    return kin.facts(case.parents) | limited.facts(case.key, case.use, case.now)


def _first(lines: Sequence[HostLine]) -> str:
    return lines[0].label if lines else ""


def _holder(job: JobFacts, lease: LeaseFacts | None) -> str:
    if lease is not None:
        return lease.label
    return _("(no lease names it)") if job.state == JobState.RUNNING else ""


def _since(pause: Pause) -> str:
    since = _("Paused.") if pause.since is None else _("Paused %s.") % moment(pause.since)
    if pause.until is None:
        return _("%(since)s It ends when somebody resumes it.") % {"since": since}
    return _("%(since)s It ends at %(until)s.") % {"since": since, "until": moment(pause.until)}


def _instead(found: Sequence[Finding], needs: Needs | None, *, has_no_slots: bool) -> str | None:
    """Say what workers there are instead of one that would take the job."""
    first = next((each for each in found if each.fails is not None), None)
    if first is not None and first.fails == S.UNKNOWN_TASK:
        return _("Deploy the code that has it, then restart a worker or start another one.")
    if first is None or not first.detail or first.fails not in WHO_IS_THERE:
        return None
    if first.fails == S.AT_CAPACITY and has_no_slots:
        return _("An operator gave the queue no slots: no worker takes a job of it.")
    machine = automatic_labels(needs)
    if machine and first.fails == S.NO_WORKER_FITS:
        words = _("%(detail)s. Start the worker on a machine that is %(machine)s.")
        return words % {"detail": first.detail, "machine": ", ".join(machine)}
    return f"{first.detail}."


def _after_lease(
    job: JobFacts, lease: LeaseFacts | None, others: Sequence[Situation]
) -> str | None:
    """Say what comes when the lease has lapsed; None: it would wait for ``others``."""
    if lease is None:
        return _("There is no lease that could lapse, so no worker takes the job back.")
    if job.attempt >= job.max_attempts or not job.idempotent:
        return _("It dies of that when the lease has lapsed.")
    return None if others else _("When the lease has lapsed, a live worker makes it ready again.")


def _with_next(told: Verdict, others: Sequence[Situation]) -> Verdict:
    """Say what would block next, unless something else comes first or cures it too."""
    cured = told.command and {told.situation, *others} <= WHO_IS_THERE
    if told.then is not None or not others or cured:
        return told
    sentence = str(SENTENCES[others[0]]) % told.facts
    match told.situation:
        case S.QUEUE_PAUSED:
            words = _("Even after resuming it would wait: %(sentence)s")
        case S.LOST:
            words = _("When the lease has lapsed it would wait: %(sentence)s")
        case _:
            words = _("Even then it would wait: %(sentence)s")
    return replace(told, then=words % {"sentence": sentence})
