"""The state of one limit key in the whole fleet."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Limit(models.Model):
    """Written by the claim that takes permits and the settle that gives them back.

    The columns after ``next_at`` carry the arithmetic of one claim through its upsert, which
    sees the newest version of the row; nobody else reads them.
    """

    key = models.TextField(primary_key=True)
    size = models.IntegerField(null=True, blank=True, help_text=_("of the newest claimed job"))
    override = models.IntegerField(null=True, blank=True, help_text=_("an operator's size"))
    in_use = models.IntegerField(db_default=0)
    next_at = models.DateTimeField(null=True, blank=True, help_text=_("by the rate"))
    every = models.FloatField(null=True, blank=True, help_text=_("seconds between two starts"))
    burst = models.IntegerField(null=True, blank=True)
    patient = models.BooleanField(null=True)
    wanted = models.IntegerField(db_default=0)
    unrated = models.IntegerField(db_default=0)
    granted = models.IntegerField(db_default=0)
    passed = models.IntegerField(db_default=0)
    deferred = models.IntegerField(db_default=0)

    class Meta:
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        permissions: ClassVar = [("change_size_limit", _("Can change the size of limits"))]
        default_permissions = ("view",)
        constraints: ClassVar = [
            models.CheckConstraint(
                name="django_jobs_limit_in_use_not_negative", condition=Q(in_use__gte=0)
            ),
        ]

    def __str__(self) -> str:
        """Name the key."""
        return self.key
