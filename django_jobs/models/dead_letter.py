"""A job that ran out of attempts, or was refused for good."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_jobs.models.job import Job


class DeadLetter(Job):
    """The dead jobs, as a page of their own; who may view jobs may view them."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
