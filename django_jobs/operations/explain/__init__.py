"""Why is this job not running, and how does its queue fare?

``live`` reads what is so at the moment, ``hosts`` says it in the words of ``placement``,
``checks`` asks what the claim asks, ``verdict`` makes one sentence of it and ``advice`` names
what helps; ``explanation`` holds the values.
"""

from __future__ import annotations

from django_jobs.operations.explain.explanation import (
    SENTENCES,
    Check,
    Explanation,
    HostLine,
    QueueExplanation,
    Situation,
    Verdict,
)
from django_jobs.operations.explain.live import explain, explain_queue

__all__ = [
    "SENTENCES",
    "Check",
    "Explanation",
    "HostLine",
    "QueueExplanation",
    "Situation",
    "Verdict",
    "explain",
    "explain_queue",
]
