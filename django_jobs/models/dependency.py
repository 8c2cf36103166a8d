"""One job that waits for another."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class Dependency(models.Model):
    """``child`` becomes ready when all its parents have succeeded; neither is a foreign key."""

    id = models.BigAutoField(primary_key=True)
    parent = models.BigIntegerField()
    child = models.BigIntegerField()

    class Meta:
        verbose_name = _("dependency")
        verbose_name_plural = _("dependencies")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["parent", "child"], name="django_jobs_dependency_parent"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["child"], name="django_jobs_dependency_child")]

    def __str__(self) -> str:
        """Name both."""
        return f"job {self.child} after job {self.parent}"
