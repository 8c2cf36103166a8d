"""An operator's word on a queue."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Queue(models.Model):
    """Holds only what differs from the settings; most queues have no row."""

    id = models.BigAutoField(primary_key=True)
    backend = models.TextField(db_default="default")
    name = models.TextField()
    paused = models.BooleanField(db_default=False)
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_by = models.TextField(null=True, blank=True)
    paused_reason = models.TextField(null=True, blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)
    slots = models.IntegerField(null=True, blank=True, help_text=_("per worker; empty: settings"))

    class Meta:
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        permissions: ClassVar = [("pause_queue", _("Can pause and resume queues"))]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["backend", "name"], name="django_jobs_queue_name"),
            models.CheckConstraint(
                name="django_jobs_queue_slots_not_negative",
                condition=Q(slots__isnull=True) | Q(slots__gte=0),
            ),
        ]

    def __str__(self) -> str:
        """Name the queue."""
        return self.name
