"""One fact in a job's history that its own row cannot tell."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_jobs.models.fields import JSONText


class Event(models.Model):
    """Written in the statement of the change that it tells; deleted with its job."""

    class Kind(models.TextChoices):
        """What happened; the kinds of a final state carry the state's name."""

        FAILED = "failed", _("attempt failed")
        RESCUED = "rescued", _("rescued")
        DEAD = "dead", _("died")
        DROPPED = "dropped", _("dropped")
        CANCELLED = "cancelled", _("cancelled")
        SNOOZED = "snoozed", _("snoozed")
        HANDED_BACK = "handed_back", _("handed back")
        UNKNOWN_TASK = "unknown_task", _("unknown task")
        REQUEUED = "requeued", _("requeued")

    id = models.BigAutoField(primary_key=True)
    job_id = models.BigIntegerField(null=True, blank=True)
    kind = models.TextField(choices=Kind.choices)
    at = models.DateTimeField(db_default=Now())
    attempt = models.SmallIntegerField()
    life = models.SmallIntegerField()
    worker = models.UUIDField(null=True, blank=True)
    actor = models.TextField(null=True, blank=True)
    activity_id = models.BigIntegerField(null=True, blank=True)
    data = JSONText(null=True, blank=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        indexes: ClassVar = [models.Index(fields=["job_id", "id"], name="django_jobs_event_job")]

    def __str__(self) -> str:
        """Name the fact and its job."""
        return f"{self.kind} of job {self.job_id}"
