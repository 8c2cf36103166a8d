"""The jobs that a job waits for, and those that wait for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.utils.translation import gettext as _

from django_jobs.operations.explain.words import some
from django_jobs.sql import Row, SiteDatabase
from django_jobs.states import FINAL, JobState

COUNTED = 1000  # parents, and children, that are counted
NAMED = 20  # that are named


@dataclass(frozen=True, slots=True)
class Relative:
    """A parent or a child."""

    job: int
    task: str | None  # None: it has been purged
    state: str | None

    def __str__(self) -> str:
        """Say how it is."""
        if self.state is None or self.task is None:
            return _("%d is gone") % self.job
        known = self.state in JobState.values
        return _("%(task)s %(job)d is %(state)s") % {
            "task": self.task, "job": self.job,
            "state": JobState(self.state).label if known else self.state,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Relatives:
    """The parents, or the children, of a job; those that are not done come first."""

    named: tuple[Relative, ...] = ()
    total: int = 0
    undone: int = 0
    failed: int = 0  # of those, the ones that have ended all the same

    @property
    def count(self) -> str:
        """How many there are, as a page says it."""
        return f"{COUNTED}+" if self.total > COUNTED else str(self.total)


@dataclass(frozen=True, slots=True)
class Kin:
    """Both."""

    parents: Relatives
    children: Relatives


def kin_of(job: int, *, after_failure: bool, database: str) -> Kin:
    """Return the kin of a job in one statement; ``after_failure``: any end of a parent will do."""
    done: Collection[str] = FINAL if after_failure else {JobState.SUCCEEDED}
    params = {
        "job": job, "done": sorted(done), "final": sorted(FINAL),
        "counted": COUNTED + 1, "named": NAMED,
    }  # fmt: skip
    rows = SiteDatabase(database).fetch("explain_kin", params)
    return Kin(*(_relatives([row for row in rows if row[0] is up]) for up in (True, False)))


def _relatives(rows: list[Row]) -> Relatives:
    if not rows:
        return Relatives()
    _up, _id, _task, _state, total, undone, failed = rows[0]
    named = tuple(Relative(*row[1:4]) for row in rows)
    return Relatives(named=named, total=total, undone=undone, failed=failed)


def facts(parents: Relatives) -> dict[str, str]:
    """Return what the sentence on parents names."""
    names = [str(each) for each in parents.named[: parents.undone]]
    return {
        "open": str(parents.undone),
        "total": parents.count,
        "parents": some(names, of=parents.undone) or _("they are done"),
    }


def under(parents: Relatives) -> str:
    """Say whether it will ever run."""
    if parents.failed:
        return _("This job will never run unless it is requeued.")
    return "" if parents.undone else _("The next sweep of a live worker lets it go on.")
