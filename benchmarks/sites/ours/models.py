"""A model with the columns of a job, to compare enqueue() with objects.create()."""

from __future__ import annotations

from django.db import models

from django_jobs.models import Job


class Twin(models.Model):
    """Has a job's columns and nothing else: no index beside its key, no constraint."""

    class Meta:
        app_label = "ours"


for _field in Job._meta.local_fields:
    if not _field.primary_key:
        Twin.add_to_class(_field.name, _field.clone())
