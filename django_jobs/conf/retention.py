"""How long what is over is kept, in ``OPTIONS["retention"]``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django_jobs.conf.values import InvalidOption, did_you_mean, seconds

DAY = 86_400.0
EVENTS = "events"
DEFAULTS: Mapping[str, float] = {  # of each final state, and of events without a job
    "succeeded": 7 * DAY,
    "cancelled": 14 * DAY,
    "expired": 14 * DAY,
    "dropped": 14 * DAY,
    "dead": 90 * DAY,
    EVENTS: 30 * DAY,
}
LEAST = 1.0
MOST = 36_525 * DAY  # a century; for ever is None


def retention(value: object, where: str) -> dict[str, float | None]:
    """Return the age in seconds at which each goes, None: never; those not named by default."""
    if not isinstance(value, Mapping):
        cure = "Set it to {'succeeded': timedelta(days=7), 'dead': None}; None keeps for ever."
        raise InvalidOption(where, value, cure)
    for key in value:
        if key not in DEFAULTS:
            cure = f"Take out {key!r}.{did_you_mean(key, DEFAULTS)}"
            raise InvalidOption(where, value, cure, code="E002")
    said = {key: _age(age, f"{where}[{key!r}]") for key, age in value.items()}
    return {**DEFAULTS, **said}


def _age(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, timedelta):
        value = value.total_seconds()
    elif not isinstance(value, (int, float)):
        cure = "Set it to a timedelta, a number of seconds, or None, which keeps for ever."
        raise InvalidOption(where, value, cure)
    return seconds(value, where, LEAST, MOST)
