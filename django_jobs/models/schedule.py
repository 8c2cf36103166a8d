"""Where one entry of cron stands."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Schedule(models.Model):
    """Made by a worker from its settings; what an operator says of it stands beside.

    ``since`` is when the worker started whose version of the entry this is: only one that
    started later may change it, so two deployed versions do not fight.
    """

    id = models.BigAutoField(primary_key=True)
    backend = models.TextField(db_default="default")
    name = models.TextField()
    task = models.TextField()
    schedule = models.TextField()
    timezone = models.TextField()
    queue = models.TextField(null=True, blank=True, help_text=_("empty: the task's own"))
    catch_up = models.TextField(db_default="run_once")
    overlap = models.TextField(db_default="allow")
    enabled = models.BooleanField(db_default=True, help_text=_("as the settings say"))
    digest = models.TextField()
    since = models.DateTimeField(db_default=Now())
    next_at = models.DateTimeField(null=True, blank=True, help_text=_("the next occurrence"))
    last_at = models.DateTimeField(null=True, blank=True, help_text=_("the last one that fired"))
    fired_at = models.DateTimeField(null=True, blank=True, help_text=_("when it did"))
    last_job = models.BigIntegerField(null=True, blank=True)
    missed_at = models.DateTimeField(null=True, blank=True, help_text=_("the last without a job"))
    missed_why = models.TextField(null=True, blank=True)
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_by = models.TextField(null=True, blank=True)
    disabled_reason = models.TextField(null=True, blank=True)
    gone_at = models.DateTimeField(null=True, blank=True, help_text=_("out of the settings"))

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions: ClassVar = [
            ("disable_schedule", _("Can disable and enable schedules")),
            ("run_schedule", _("Can run schedules now")),
        ]
        default_permissions = ("view",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["backend", "name"], name="django_jobs_schedule_name"),
        ]

    def __str__(self) -> str:
        """Name the entry."""
        return self.name
