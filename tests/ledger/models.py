from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Mark(models.Model):
    """One real execution, written over a connection of its own."""

    key = models.TextField(default="")
    job = models.BigIntegerField(null=True)
    attempt = models.IntegerField(default=0)
    lease = models.BigIntegerField(null=True)
    pid = models.IntegerField(default=0)
    at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "ledger"

    def __str__(self) -> str:
        return f"{self.key} by {self.pid}"
