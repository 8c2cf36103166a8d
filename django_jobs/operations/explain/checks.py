"""The checks of the claim, in its order: what each finds about a job that waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_jobs.operations.explain import kin, limited
from django_jobs.operations.explain.explanation import (
    Check,
    HostLine,
    JobFacts,
    LeaseFacts,
    Pause,
    Result,
    Situation,
)
from django_jobs.operations.explain.kin import Relatives
from django_jobs.operations.explain.limited import KeyFacts, Use
from django_jobs.operations.explain.words import moment, some
from django_jobs.placement import RECORDED, Needs, Reason
from django_jobs.states import JobState

S = Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job that waits, and all that is known of why."""

    job: JobFacts
    lease: LeaseFacts | None
    pause: Pause | None
    hosts: Sequence[HostLine]
    ahead: int | None  # jobs that are taken first; None: it is not in a line
    most_ahead: int  # that are counted
    has_no_slots: bool  # an operator gave the queue none, so no worker would help
    now: datetime
    parents: Relatives  # of a job that waits for them
    key: KeyFacts | None  # its limit
    use: Use  # who has the places of it

    @property
    def is_due(self) -> bool:
        """Whether its time has come, if it had one."""
        if self.job.state != JobState.SCHEDULED:
            return self.job.state == JobState.READY
        return self.job.run_after is None or self.job.run_after <= self.now


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; ``fails``: what is waited for by it."""

    name: str
    fails: Situation | None = None
    detail: str = ""
    is_known: bool = True


class Fleet:
    """The hosts, narrowed step by step to those that could take the job now."""

    def __init__(self, hosts: Sequence[HostLine]) -> None:
        """In a queue that nobody serves, all live workers are asked whether they fit."""
        self.hosts = hosts
        self.live = [each for each in hosts if each.health == "live"]
        self.serving = _without(self.live, {Reason.QUEUE_NOT_SERVED})
        self.fitting = _without(self.serving or self.live, RECORDED)
        self.free = _without(self.fitting if self.serving else (), {Reason.AT_CAPACITY})

    @property
    def silent(self) -> list[HostLine]:
        """Workers that serve the queue and are live no longer."""
        others = [each for each in self.hosts if each.worker and each.health != "live"]
        return _without(others, {Reason.QUEUE_NOT_SERVED})


def _without(
    hosts: Sequence[HostLine], reasons: frozenset[Reason] | set[Reason]
) -> list[HostLine]:
    return [each for each in hosts if not each.reasons & reasons]


def findings(case: Case, fleet: Fleet) -> list[Finding]:
    """Return what every check finds, in the order of the claim."""
    paused, *places = of_queue(case.pause, case.job.needs, fleet)
    return [*_own(case), paused, _limit(case), *places, _position(case)]


def of_queue(pause: Pause | None, needs: Needs | None, fleet: Fleet) -> list[Finding]:
    """Return what those checks find that ask of a job no more than what it needs."""
    return [_paused(pause), _served(fleet), _fitting(needs, fleet), _free(fleet)]


def _own(case: Case) -> Iterator[Finding]:
    """Check what the job's own row says."""
    job = case.job
    yield Finding(_("state"), _state(job), job.state)
    yield _expiry(case)
    if job.run_after is None:
        yield Finding(_("run time"), detail=_("none is set"))
    else:
        waits = job.state == JobState.SCHEDULED and not case.is_due
        yield Finding(_("run time"), due(job, case.key) if waits else None, moment(job.run_after))
    yield _dependencies(case)


def _expiry(case: Case) -> Finding:
    """A job that has started once never expires."""
    name, end = _("not expired"), case.job.expires_at
    if end is None or case.job.has_started:
        return Finding(name)
    if end <= case.now:
        return Finding(name, S.EXPIRED, _("it had to start by %s") % moment(end))
    return Finding(name, detail=_("it expires at %s if it has not started by then") % moment(end))


def _dependencies(case: Case) -> Finding:
    name = _("dependencies")
    if case.job.state != JobState.WAITING:
        return Finding(name)
    return Finding(name, S.WAITING, kin.facts(case.parents)["parents"])


def _limit(case: Case) -> Finding:
    """One that is not due, or runs, takes no place now; where there are none it never will."""
    name, key = _("limit"), case.key
    if key is None:
        return Finding(name, detail=_("none is set"))
    if case.job.state == JobState.BLOCKED:
        return Finding(name, limited.woken(key), limited.standing(key))
    found = limited.claimed(key, case.now)
    waits = found if case.is_due or found == S.LIMIT_STOPPED else None
    return Finding(name, waits, limited.standing(key))


def _state(job: JobFacts) -> Situation | None:
    """Return what the state waits for; one that is due needs no more than a sweep."""
    match job.state:
        case JobState.READY | JobState.SCHEDULED | JobState.WAITING | JobState.BLOCKED:
            return None  # the checks of what it waits for tell
        case JobState.RUNNING:
            return S.LOST
        case _:
            return S.UNKNOWN


def due(job: JobFacts, key: KeyFacts | None) -> Situation:
    """Return what a scheduled job waits for: its first attempt, or another, or its rate."""
    if key is not None and key.reserved_at is not None and key.reserved_at == job.run_after:
        return S.RATED
    return S.RETRYING if job.attempt else S.SCHEDULED


def _paused(pause: Pause | None) -> Finding:
    name = _("queue not paused")
    if pause is None:
        return Finding(name)
    return Finding(name, S.QUEUE_PAUSED, _of_pause(pause))


def _of_pause(pause: Pause) -> str:
    parts = [_("by %(by)s") % {"by": pause}]
    if pause.since is not None:
        parts.append(_("since %(moment)s") % {"moment": moment(pause.since)})
    if pause.until is not None:
        parts.append(_("until %(moment)s") % {"moment": moment(pause.until)})
    return ", ".join(parts)


def _served(fleet: Fleet) -> Finding:
    name = _("a live worker serves the queue")
    if fleet.serving:
        return Finding(name, detail=_names(fleet.serving))
    if fleet.silent:
        said = some([f"{each.label}: {each.health}" for each in fleet.silent])
        return Finding(name, S.QUEUE_NOT_SERVED, said)
    return Finding(name, S.QUEUE_NOT_SERVED, _elsewhere(fleet.live))


def _elsewhere(live: Sequence[HostLine]) -> str:
    if not live:
        return _("No worker is live")
    queues = sorted({queue for each in live for queue in each.serves or ()})
    said = ngettext("%d live worker serves %s", "%d live workers serve %s", len(live))
    return said % (len(live), some(queues) or _("no queue"))


def _fitting(needs: Needs | None, fleet: Fleet) -> Finding:
    name = _("a worker fits")
    pool = fleet.serving or fleet.live
    if fleet.fitting:
        return Finding(name, detail=_names(fleet.fitting))
    if not pool:
        return Finding(name, detail=str(needs or ""), is_known=False)
    unknown = all(Reason.UNKNOWN_TASK in each.reasons for each in fleet.live)
    said = some([_misfit(each) for each in pool], "; ")
    return Finding(name, S.UNKNOWN_TASK if unknown else S.NO_WORKER_FITS, said)


def _misfit(line: HostLine) -> str:
    """Say why a host will never do."""
    why = [each for each in line.said if each.reason in RECORDED]
    return f"{line.label}: {why[0].reason} {why[0].detail}"


def _free(fleet: Fleet) -> Finding:
    name = _("a place is free")
    if fleet.free:
        return Finding(name, detail=_names(fleet.free))
    if not fleet.serving or not fleet.fitting:
        return Finding(name, is_known=False)
    said = some([f"{each.label}: {_full(each)}" for each in fleet.fitting], "; ")
    return Finding(name, S.AT_CAPACITY, said)


def _full(line: HostLine) -> str:
    return next((each.detail for each in line.said if each.reason == Reason.AT_CAPACITY), "")


def _position(case: Case) -> Finding:
    name = _("position")
    if case.ahead is None:
        return Finding(name, is_known=False)
    if case.ahead > case.most_ahead:
        return Finding(
            name, detail=_("more than %d jobs that ask the same are ahead") % case.most_ahead
        )
    if not case.ahead:
        return Finding(name, detail=_("it is the first of those that ask the same"))
    said = ngettext(
        "%d job that asks the same is ahead", "%d jobs that ask the same are ahead", case.ahead
    )
    return Finding(name, detail=said % case.ahead)


def as_checks(found: Sequence[Finding]) -> Iterator[Check]:
    blocked = False
    for each in found:
        result: Result = "pass" if each.is_known else "unknown"
        if each.fails is not None:
            result = "would_block" if blocked else "blocks"
            blocked = True
        yield Check(each.name, result, each.detail)


def _names(lines: Sequence[HostLine]) -> str:
    return some([each.label for each in lines])
