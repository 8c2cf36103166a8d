"""A site that shows its metrics, and can be told that the last answer has served its time."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from django_jobs.metrics.database import DATABASE


def expire(request: HttpRequest) -> HttpResponse:
    for source in DATABASE._sources.values():
        source._next_at = 0.0
    return HttpResponse()


urlpatterns = [
    path("metrics", include("django_jobs.metrics.urls")),
    path("expire", expire),
]
