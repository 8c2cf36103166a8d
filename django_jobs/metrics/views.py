"""The metrics as a page, for sites without django-prometheus and for several processes."""

from __future__ import annotations

import os

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from django_jobs.metrics import NEEDED, is_available

if not is_available():
    raise ImproperlyConfigured(f"django_jobs.metrics.urls: {NEEDED}")

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from django_jobs.metrics.database import DATABASE

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with every metric, in the format that the request accepts."""
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(_registry()), content_type=content_type)


def _registry() -> CollectorRegistry:
    """Return the default registry; of several processes their sums and the gauges of queues."""
    if not os.environ.get(DIRECTORY):
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(DATABASE)
    return registry
