"""What the settings say of one queue, in ``OPTIONS["queues"]``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django_jobs.conf.values import (
    MOST,
    QUEUE_RULE,
    InvalidOption,
    did_you_mean,
    fitting,
    is_queue_name,
    whole,
)
from django_jobs.placement import Requires, check_host, checked_amounts, checked_labels

KEYS = ("slots", "weight", "requires")
CHECKS: dict[Any, Callable[[object, str], object]] = {  # by the names of what is required
    "host": lambda value, where: value if value is None else check_host(value, where),
    "labels": checked_labels,
    "resources": checked_amounts,
}


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What the settings say of one queue."""

    slots: int | None = None  # None: nothing
    weight: int = 1
    requires: Requires | None = None  # of jobs whose task does not say


def queue_options(name: object, entry: object, where: str) -> QueueOptions:
    """Return the options of the queue ``name``, once they have been judged."""
    if not is_queue_name(name):
        raise InvalidOption(where, entry, f"Rename it: {QUEUE_RULE}.")
    if not isinstance(entry, Mapping):
        raise InvalidOption(where, entry, "Set it to {'slots': 4, 'weight': 1}.")
    _require_known(entry, KEYS, where)
    slots = entry.get("slots")
    return QueueOptions(
        slots=None if slots is None else whole(slots, f"{where}['slots']", 1, MOST),
        weight=whole(entry.get("weight", 1), f"{where}['weight']", 1, MOST),
        requires=_requires(entry.get("requires"), f"{where}['requires']"),
    )


def _requires(value: object, where: str) -> Requires | None:
    """Return the requirements, which may be written as a dictionary."""
    if value is None or isinstance(value, Requires):
        return value
    if not isinstance(value, Mapping):
        cure = "Set it to Requires(…), imported from django_jobs, or to {'labels': {'gpu'}}."
        raise InvalidOption(where, value, cure)
    _require_known(value, CHECKS, where)
    for name, part in value.items():
        fitting(CHECKS[name], part, f"{where}[{name!r}]")
    return Requires(**value)


def _require_known(entry: Mapping[object, object], known: Collection[str], where: str) -> None:
    for key in entry:
        if key not in known:
            cure = f"Take out {key!r}.{did_you_mean(key, known)}"
            if key in CHECKS:
                cure = f"Move {key!r} into 'requires'."
            raise InvalidOption(where, entry, cure, code="E002")
