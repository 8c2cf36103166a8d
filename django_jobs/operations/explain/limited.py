"""What a limit key would say to a job, by the arithmetic of the claim. No database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_jobs.operations.explain.explanation import Situation
from django_jobs.operations.explain.words import moment, some

S = Situation
GRACE = timedelta(seconds=10)  # a job that had its time is not rated again for so long
COUNTED = 1000  # jobs of a key that are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """What a job asks of its limit key, and how the key stands."""

    key: str
    size: int | None  # that counts for this job; None: no bound
    every: float | None  # seconds between two starts
    burst: int
    discard: bool
    reserved_at: datetime | None
    in_use: int
    next_at: datetime | None

    @property
    def is_full(self) -> bool:
        """Whether all its places are taken."""
        return self.size is not None and self.in_use >= self.size

    @property
    def is_stopped(self) -> bool:
        """Whether it has none."""
        return self.size is not None and self.size <= 0

    def is_rated_at(self, now: datetime) -> bool:
        """Tell whether a claim would ask the rate, too."""
        if self.every is None:
            return False
        return self.reserved_at is None or self.reserved_at < now - GRACE

    def starts_at(self, now: datetime) -> datetime | None:
        """Return the time that the rate would reserve; None: one may start now."""
        if not self.every or self.next_at is None or self.next_at <= now:
            return None
        ahead = ceil((self.next_at - now).total_seconds() / self.every)
        if self.burst > ahead:
            return None
        return self.next_at - timedelta(seconds=(self.burst - 1) * self.every)


@dataclass(frozen=True, slots=True)
class Holder:
    """A running job that takes a place of the key."""

    job: int
    task: str
    worker: str  # name:pid
    health: str
    until: datetime

    @property
    def is_lost(self) -> bool:
        """Whether its worker is not there to give the place back."""
        return self.health in ("late", "gone", "stopped")

    def __str__(self) -> str:
        """Name the job and who runs it."""
        return _("%(task)s %(job)d on %(worker)s") % {
            "task": self.task, "job": self.job, "worker": self.worker,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Who has the places of a key, and who waits for one."""

    holders: tuple[Holder, ...] = ()  # the first of them
    held: int = 0
    waiting: int = 0  # no further than they are counted
    ahead: int = 0  # of those, before the job in question


def claimed(key: KeyFacts, now: datetime) -> Situation | None:
    """Return what a claim of the job would come to; None: it would run."""
    if key.is_stopped:
        return S.LIMIT_STOPPED
    if key.is_rated_at(now) and key.starts_at(now) is not None:
        return S.RATED
    return S.BLOCKED if key.is_full else None


def woken(key: KeyFacts) -> Situation:
    """Return what a blocked job waits for."""
    if key.is_stopped:
        return S.LIMIT_STOPPED
    return S.BLOCKED if key.is_full else S.LIMIT_FREE


# the words


def facts(key: KeyFacts | None, use: Use, now: datetime) -> dict[str, str]:
    """Return what the sentences on a limit name."""
    if key is None:
        return {"limit": "", "key": "", "holders": "", "starts_at": ""}
    start = key.starts_at(now) if key.is_rated_at(now) else key.reserved_at
    return {
        "limit": standing(key),
        "key": key.key,
        "holders": some([str(each) for each in use.holders], of=use.held)
        or _("no job that is known"),
        "starts_at": "" if start is None else moment(start),
    }


def standing(key: KeyFacts) -> str:
    """Say how much of a key is in use: ``feeds:acme 1/2``."""
    return f"{key.key} {key.in_use}" + ("" if key.size is None else f"/{key.size}")


def under(key: KeyFacts, use: Use, *, is_blocked: bool) -> str:
    """Say until when its places are held, how many wait and which place this job has."""
    said = [_lease(each) for each in use.holders]
    if key.discard and not is_blocked:
        said.append(_("It does not wait for a place: the next claim cancels it."))
    elif use.waiting:
        said.append(_queue(use, is_blocked=is_blocked))
    return " ".join(said)


def _lease(holder: Holder) -> str:
    words = {"job": holder.job, "moment": moment(holder.until), "health": holder.health}
    if holder.is_lost:
        text = _("The worker of %(job)d is %(health)s: its place is free when its lease, which "
                 "ends at %(moment)s, has lapsed.")  # fmt: skip
        return text % words
    return _("The lease of %(job)d lasts until %(moment)s.") % words


def _queue(use: Use, *, is_blocked: bool) -> str:
    if use.waiting > COUNTED:
        return _("More than %d jobs wait for the key.") % COUNTED
    text = ngettext("%d job waits for the key", "%d jobs wait for the key", use.waiting)
    said = text % use.waiting
    if not is_blocked:
        return f"{said}."
    return _("%(said)s, this one is number %(place)d.") % {"said": said, "place": use.ahead + 1}
