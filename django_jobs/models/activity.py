"""One act of an operator."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Activity(models.Model):
    """Written in the act's own transaction; only the count of an act in batches grows.

    The actor is kept as text: no key to the user table, so the record outlives the user
    and the jobs may live in another database than the users.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    actor_id = models.TextField(null=True, blank=True)
    actor_name = models.TextField()
    via = models.TextField(help_text=_("admin, cli, api"))
    verb = models.TextField()
    scope = models.TextField(help_text=_("what it was about, in words"))
    count = models.IntegerField()
    reason = models.TextField(db_default="", blank=True)

    class Meta:
        verbose_name = _("activity")
        verbose_name_plural = _("activity")
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        """Say who did what."""
        return f"{self.actor_name}: {self.verb} {self.scope}"
