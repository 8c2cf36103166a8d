"""Typed reads of ``TASKS[alias]["OPTIONS"]``, made when they are used.

A value that is wrong is never replaced by another one: reading it raises ``InvalidOption``,
and ``problems`` lists all that is wrong under an alias, for the system check and the worker.
"""

from __future__ import annotations

from django_jobs.conf.aliases import backend_fault, queue_fault
from django_jobs.conf.options import DEFAULT_SLOTS, OPTION_NAMES, Options
from django_jobs.conf.problems import Problem, problems
from django_jobs.conf.queues import QueueOptions
from django_jobs.conf.values import (
    MOST,
    QUEUE_RULE,
    InvalidOption,
    did_you_mean,
    is_queue_name,
    queue_names,
    shown,
)

__all__ = [
    "DEFAULT_SLOTS",
    "MOST",
    "OPTION_NAMES",
    "QUEUE_RULE",
    "InvalidOption",
    "Options",
    "Problem",
    "QueueOptions",
    "backend_fault",
    "did_you_mean",
    "is_queue_name",
    "problems",
    "queue_fault",
    "queue_names",
    "shown",
]
