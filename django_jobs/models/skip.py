"""Why one host passes over one placement."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Skip(models.Model):
    """Written by a worker of that host when the reason changed, and only then."""

    id = models.BigAutoField(primary_key=True)
    host = models.TextField(help_text=_("the worker's name"))
    placement = models.IntegerField()
    reason = models.TextField(help_text=_("a code of placement.Reason"))
    detail = models.TextField(db_default="", blank=True)
    since = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name = _("skip")
        verbose_name_plural = _("skips")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["host", "placement"], name="django_jobs_skip_host")
        ]

    def __str__(self) -> str:
        """Name host and reason."""
        return f"{self.host}: {self.reason}"
