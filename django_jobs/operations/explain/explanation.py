"""What an explanation says: values, and the one sentence of each situation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from django.utils.functional import Promise
from django.utils.translation import gettext as now_said
from django.utils.translation import gettext_lazy as _

from django_jobs.placement import Mismatch, Needs, Reason

Result = Literal["pass", "blocks", "would_block", "unknown"]
Health = Literal["live", "late", "gone", "draining"]
Remedy = Literal["resume", "run_now", "requeue"]


class Situation(StrEnum):
    """What a job, or a queue, waits for or has come to. Public, stable."""

    QUEUE_NOT_SERVED = "queue_not_served"
    QUEUE_PAUSED = "queue_paused"
    UNKNOWN_TASK = "unknown_task"
    NO_WORKER_FITS = "no_worker_fits"
    AT_CAPACITY = "at_capacity"
    READY = "ready"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    WAITING = "waiting"
    BLOCKED = "blocked"
    LIMIT_STOPPED = "limit_stopped"
    LIMIT_FREE = "limit_free"
    RATED = "rated"
    RUNNING = "running"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    DROPPED = "dropped"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


S = Situation

# One sentence each, with nothing that moves by itself: the same page says the same twice.
SENTENCES: Mapping[Situation, Promise] = {
    S.QUEUE_NOT_SERVED: _("No live worker serves the queue “%(queue)s”."),
    S.QUEUE_PAUSED: _("The queue “%(queue)s” is paused by %(by)s."),
    S.UNKNOWN_TASK: _("No live worker knows the task %(task)s."),
    S.NO_WORKER_FITS: _(
        "No live worker of the queue “%(queue)s” fits what the job needs: %(needs)s."
    ),
    S.AT_CAPACITY: _("Every live worker of the queue “%(queue)s” that fits is at capacity."),
    S.READY: _("Ready: %(worker)s has room for it."),
    S.SCHEDULED: _("Scheduled: it may start at %(run_after)s."),
    S.RETRYING: _(
        "Attempt %(attempt)s of %(max_attempts)s failed; the next is due at %(run_after)s."
    ),
    S.WAITING: _("It waits for %(open)s of %(total)s parents: %(parents)s."),
    S.BLOCKED: _("Its limit, %(limit)s, is held by %(holders)s."),
    S.LIMIT_STOPPED: _("Its limit, %(key)s, is 0: no job of it starts."),
    S.LIMIT_FREE: _("Its limit, %(limit)s, has room again: the next sweep makes it ready."),
    S.RATED: _("Its rate, %(key)s, lets it start at %(starts_at)s."),
    S.RUNNING: _("It is running on %(worker)s."),
    S.TIMED_OUT: _("It is over its timeout of %(timeout)s s on %(worker)s and has not ended."),
    S.LOST: _("Its worker %(worker)s seems to be lost."),
    S.SUCCEEDED: _("It has succeeded."),
    S.DEAD: _("It is dead after attempt %(attempt)s of %(max_attempts)s."),
    S.DROPPED: _("It failed for good and was dropped."),
    S.CANCELLED: _("It was cancelled."),
    S.EXPIRED: _("It expired before it could start."),
    S.UNKNOWN: _("Another version wrote its state, “%(state)s”."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The situation in one sentence, and what to do about it."""

    situation: Situation
    facts: Mapping[str, Any] = field(default_factory=dict)  # what the sentence names, as text
    more: str | None = None  # what stands right under it: since when, or what there is instead
    then: str | None = None  # a second sentence: what would block next
    command: str | None = None  # a line for a shell
    remedy: Remedy | None = None  # a button of the admin

    @property
    def sentence(self) -> str:
        """The sentence, in the language of the moment."""
        return str(SENTENCES[self.situation]) % self.facts


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a claim asks, in its order."""

    name: str  # for people, translated
    result: Result  # the first that fails blocks, each later one would
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """Why one worker would not take the job; no reason: it could take it now."""

    host: str
    worker: UUID | None  # None: known only by what its host wrote down
    label: str  # name:pid
    health: Health
    reason: Reason | Literal["late", "gone"] | None
    detail: str = ""
    since: datetime | None = None  # when its host wrote this reason down
    recorded: bool = False  # its host wrote this reason down
    also: tuple[Mismatch, ...] = ()  # what it would say next
    serves: tuple[str, ...] | None = None  # None: every queue

    @property
    def said(self) -> tuple[Mismatch, ...]:
        """All that it would say, in order; that it is late or gone is no word of its own."""
        if isinstance(self.reason, Reason):
            return (Mismatch(self.reason, self.detail), *self.also)
        return self.also

    @property
    def reasons(self) -> frozenset[Reason]:
        """The codes of ``said``."""
        return frozenset(each.reason for each in self.said)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The job's own row, as far as it matters here."""

    id: int
    backend: str
    task: str
    state: str
    queue: str
    priority: int
    placement: int
    suspect: bool
    attempt: int
    max_attempts: int
    idempotent: bool
    run_after: datetime | None
    expires_at: datetime | None
    has_started: bool
    after_failure: bool
    needs: Needs | None  # None: its placement cannot be read


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """Who holds a running job, and until when."""

    until: datetime
    worker: UUID
    label: str  # name:pid
    health: str  # of the worker
    timed_out_at: datetime | None = None  # since when its run is over its timeout
    timeout: float | None = None  # and that timeout, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job is not running; a job that ended, or runs, has neither checks nor hosts."""

    job: JobFacts
    verdict: Verdict
    checks: tuple[Check, ...]
    hosts: tuple[HostLine, ...]
    now: datetime  # the database's clock
    lease: LeaseFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """An operator's word that a queue stands still."""

    by: str | None
    reason: str | None
    since: datetime | None
    until: datetime | None  # None: until somebody resumes it

    def __str__(self) -> str:
        """Say by whom and why."""
        by = self.by or now_said("somebody")
        return f"{by} (“{self.reason}”)" if self.reason else by


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueExplanation:
    """How a queue fares."""

    backend: str
    name: str
    verdict: Verdict  # queue_paused, queue_not_served, at_capacity or ready
    pause: Pause | None
    hosts: tuple[HostLine, ...]  # the workers that serve it
    ready: int
    is_more: bool  # so many are only those that were counted
    oldest_seconds: float | None  # how long the oldest of these has waited
    now: datetime
