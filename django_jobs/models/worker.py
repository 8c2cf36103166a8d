"""One start of one jobworker process."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_jobs.models.fields import TextArray


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
    lease_seconds = models.FloatField(db_default=30.0, help_text=_("how long its leases last"))

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        """Name the process as an operator knows it."""
        return f"{self.name}:{self.pid}"
