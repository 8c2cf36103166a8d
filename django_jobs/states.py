"""The states of a job, and every way from one to another."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobState(models.TextChoices):
    """Where a job stands; the values are stored."""

    WAITING = "waiting", _("waiting")
    SCHEDULED = "scheduled", _("scheduled")
    READY = "ready", _("ready")
    BLOCKED = "blocked", _("blocked")
    RUNNING = "running", _("running")
    SUCCEEDED = "succeeded", _("succeeded")
    DEAD = "dead", _("dead")
    DROPPED = "dropped", _("dropped")
    CANCELLED = "cancelled", _("cancelled")
    EXPIRED = "expired", _("expired")


S = JobState

LIVE = frozenset({S.WAITING, S.SCHEDULED, S.READY, S.BLOCKED, S.RUNNING})
FINAL = frozenset(S) - LIVE
FAILED = FINAL - {S.SUCCEEDED}

# From a state to those that may follow it. From a final state only an operator's requeue leads on.
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    S.WAITING: frozenset({S.READY, S.SCHEDULED, S.CANCELLED, S.EXPIRED}),
    S.SCHEDULED: frozenset({S.READY, S.CANCELLED, S.EXPIRED}),
    S.READY: frozenset({S.RUNNING, S.BLOCKED, S.SCHEDULED, S.CANCELLED, S.EXPIRED}),
    S.BLOCKED: frozenset({S.READY, S.CANCELLED, S.EXPIRED}),
    S.RUNNING: frozenset(
        {S.READY, S.SCHEDULED, S.SUCCEEDED, S.DEAD, S.DROPPED, S.CANCELLED},
    ),
    S.SUCCEEDED: frozenset({S.READY}),
    S.DEAD: frozenset({S.READY}),
    S.DROPPED: frozenset({S.READY}),
    S.CANCELLED: frozenset({S.READY}),
    S.EXPIRED: frozenset({S.READY}),
}
