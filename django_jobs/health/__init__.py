"""Whether a worker is well: over HTTP beside it, and asked from elsewhere.

``probes`` judges, ``server`` answers on a port, ``asking`` asks such a port and believes
nobody who does not say who he is. Nothing here knows the worker's own modules: the command
hands over what is asked of it.
"""

from __future__ import annotations

from django_jobs.health.asking import NotWell, Who, ask
from django_jobs.health.probes import Probes, Subject, patience
from django_jobs.health.round_trip import RoundTrip
from django_jobs.health.server import HealthServer

__all__ = [
    "HealthServer",
    "NotWell",
    "Probes",
    "RoundTrip",
    "Subject",
    "Who",
    "ask",
    "patience",
]
