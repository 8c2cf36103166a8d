"""A model with the columns of a job, to compare enqueue() with objects.create()."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from django_jobs.models import Job


class Twin(models.Model):
    """Has a job's columns and nothing else: no index beside its key, no constraint."""

    objects: ClassVar[models.Manager[Twin]] = models.Manager()

    class Meta:
        app_label = "ours"

    def __str__(self) -> str:
        """Name the row."""
        return f"twin {self.pk}"


for _field in Job._meta.local_fields:  # noqa: SLF001 - Django documents it
    if not _field.primary_key:
        Twin.add_to_class(_field.name, _field.clone())
