"""One distinct set of what jobs ask of a host."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Value
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_jobs.models.fields import JSONText, TextArray
from django_jobs.placement import Needs, Requires


class Placement(models.Model):
    """Found by its digest, which is not unique: racing first uses may make harmless twins.

    Placement 0 is "any host" and has no row: a test that empties every table must not make
    jobs unrunnable.
    """

    id = models.AutoField(primary_key=True)
    digest = models.TextField()
    host = models.TextField(null=True, blank=True)
    labels = TextArray(db_default=Value([], TextArray()))
    resources = JSONText(db_default={}, help_text=_("name → amount"))
    task = models.TextField(null=True, blank=True, help_text=_("whose code it takes"))
    created_at = models.DateTimeField(db_default=Now())
    unknown_since = models.DateTimeField(
        null=True, blank=True, help_text=_("by every live worker")
    )
    warned_at = models.DateTimeField(null=True, blank=True, help_text=_("of that"))

    class Meta:
        verbose_name = _("placement")
        verbose_name_plural = _("placements")
        default_permissions = ()
        indexes: ClassVar = [models.Index(fields=["digest"], name="django_jobs_placement_digest")]

    def __str__(self) -> str:
        """Say what is asked for."""
        return str(self.needs)

    @property
    def needs(self) -> Needs:
        """The value that the predicates take."""
        asked = Requires(host=self.host, labels=self.labels, resources=self.resources)
        return Needs(requires=asked, task=self.task)
