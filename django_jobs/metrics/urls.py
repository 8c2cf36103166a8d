"""``path("metrics", include("django_jobs.metrics.urls"))``; who may see it the site decides."""

from __future__ import annotations

from django.urls import path

from django_jobs.metrics.views import metrics

urlpatterns = [path("", metrics, name="django_jobs_metrics")]
