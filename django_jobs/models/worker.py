"""One start of one jobworker process."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from django.db import models
from django.db.models import Value
from django.db.models.functions import Least, Now
from django.utils.translation import gettext_lazy as _

from django_jobs.models.fields import JSONText, TextArray

LATE, GONE = 2, 3  # heartbeats missed

Health = Literal["live", "draining", "late", "gone", "stopped"]


class WorkerQuerySet(models.QuerySet["Worker"]):
    """Adjectives for workers."""

    def unstopped(self) -> WorkerQuerySet:
        """Those that have not said that they end."""
        return self.exclude(state=Worker.State.STOPPED)

    def last_heard_of_first(self) -> WorkerQuerySet:
        """Workers in order of their silence, each with the database's time as ``now``."""
        heard = Least("seen_at", "loop_at")
        return self.annotate(now=Now()).order_by(heard.desc(), "pk")


class Worker(models.Model):
    """A worker's own word on itself; ``epoch`` fences its claims."""

    class State(models.TextChoices):
        """What the process is about."""

        RUNNING = "running", _("running")
        DRAINING = "draining", _("draining")
        STOPPED = "stopped", _("stopped")

    id = models.UUIDField(primary_key=True)
    backend = models.TextField()
    name = models.TextField(help_text=_("host label"))
    pid = models.IntegerField()
    version = models.TextField()
    queues = TextArray(null=True, help_text=_("null: every queue"))
    state = models.TextField(choices=State.choices, db_default=State.RUNNING)
    capacity = models.IntegerField()
    in_flight = models.IntegerField(db_default=0)
    idle = models.BooleanField(db_default=False, help_text=_("sleeps: ring the bell"))
    epoch = models.IntegerField(db_default=1)
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now(), help_text=_("the renewer's heartbeat"))
    loop_at = models.DateTimeField(db_default=Now(), help_text=_("the loop's last turn"))
    renew_seconds = models.FloatField(db_default=10.0, help_text=_("between two heartbeats"))
    aliases = TextArray(db_default=Value([], TextArray()), help_text=_("more names of its host"))
    labels = TextArray(db_default=Value([], TextArray()))
    resources = JSONText(db_default={}, help_text=_("name → amount, all of it"))
    slots = JSONText(db_default={}, help_text=_("queue → slots, as its settings say"))
    default_slots = models.IntegerField(null=True, blank=True, help_text=_("of other queues"))
    lease_seconds = models.FloatField(db_default=30.0, help_text=_("how long its leases last"))

    cron = models.BooleanField(db_default=False, help_text=_("fires schedules"))
    health = models.TextField(null=True, blank=True, help_text=_("host:port that answers"))

    objects = WorkerQuerySet.as_manager()

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        """Name the process as an operator knows it."""
        return f"{self.name}:{self.pid}"

    def health_at(self, now: datetime) -> Health:
        """Return one word for how the worker is at ``now``, by its own heartbeat's interval.

        It lives by its claim loop as much as by its renewer: the older sign counts.
        """
        if self.state == self.State.STOPPED:
            return "stopped"
        silence = self.silence_at(now)
        if silence > GONE * self.renew_seconds:
            return "gone"
        if silence > LATE * self.renew_seconds:
            return "late"
        return "draining" if self.state == self.State.DRAINING else "live"

    def silence_at(self, now: datetime) -> float:
        """Return the seconds since its renewer or its loop was last heard of."""
        return (now - min(self.seen_at, self.loop_at)).total_seconds()
