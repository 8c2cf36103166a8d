"""How Django loads the app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DjangoJobsConfig(AppConfig):
    """The app of jobs, workers and queues."""

    name = "django_jobs"
    verbose_name = _("Jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks and metrics; importing compat registers Django's check of backends."""
        from django_jobs import checks, compat, metrics  # noqa: F401

        metrics.register()
