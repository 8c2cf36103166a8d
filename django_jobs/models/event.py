"""One fact in a job's history that its own row cannot tell."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_jobs.models.fields import JSONText


class Event(models.Model):
    """Written in the statement of the change that it tells; deleted with its job.

    One of a placement has no job: ``skipped`` names the host, ``nobody_knows`` none.
    """

    class Kind(models.TextChoices):
        """What happened; the kinds of a final state carry the state's name."""

        FAILED = "failed", _("attempt failed")
        RESCUED = "rescued", _("rescued")
        DEAD = "dead", _("died")
        DROPPED = "dropped", _("dropped")
        CANCELLED = "cancelled", _("cancelled")
        TIMED_OUT = "timed_out", _("over its timeout")
        SNOOZED = "snoozed", _("snoozed")
        HANDED_BACK = "handed_back", _("handed back")
        UNKNOWN_TASK = "unknown_task", _("unknown task")
        EXPIRED = "expired", _("expired")
        CANCEL_ASKED = "cancel_asked", _("asked to end")
        REQUEUED = "requeued", _("requeued")
        RUN_NOW = "run_now", _("run now")
        SKIPPED = "skipped", _("passed over by a host")
        NOBODY_KNOWS = "nobody_knows", _("no live worker knows its task")

    id = models.BigAutoField(primary_key=True)
    job_id = models.BigIntegerField(null=True, blank=True)
    kind = models.TextField(choices=Kind.choices)
    at = models.DateTimeField(db_default=Now())
    attempt = models.SmallIntegerField()
    life = models.SmallIntegerField()
    worker = models.UUIDField(null=True, blank=True)
    actor = models.TextField(null=True, blank=True)
    activity_id = models.BigIntegerField(null=True, blank=True)
    placement = models.IntegerField(null=True, blank=True)
    host = models.TextField(null=True, blank=True)
    data = JSONText(null=True, blank=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        indexes: ClassVar = [
            models.Index(fields=["job_id", "id"], name="django_jobs_event_job"),
            # Those without a job: the page of skips, and what goes with a host that is gone.
            models.Index(
                fields=["placement", "host"],
                name="django_jobs_event_placement",
                condition=Q(placement__isnull=False),
            ),
            # The retention: the oldest of those that go with no job.
            models.Index(
                fields=["at"],
                name="django_jobs_event_jobless",
                condition=Q(job_id__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        """Name the fact and its job."""
        whose = f"placement {self.placement}" if self.job_id is None else f"job {self.job_id}"
        return f"{self.kind} of {whose}"
