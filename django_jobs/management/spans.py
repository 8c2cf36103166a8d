"""Spans of time as a command line says them: ``90``, ``5m``, ``1h30m``, ``14d``."""

from __future__ import annotations

import re

from django_jobs.conf.values import shown
from django_jobs.management.frame import Failed, Status

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhdw])")
NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
LONGEST = 36_500 * 86_400.0  # a later or earlier moment is none that a database keeps


def seconds_of(text: str, *, flag: str) -> float:
    """Return the seconds that ``text`` writes; raise Failed for what is no span."""
    parts = PART.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    elif NUMBER.fullmatch(text):
        seconds = float(text)
    else:
        seconds = LONGEST + 1
    if seconds > LONGEST:
        msg = f"{flag} is {shown(text)}. Set it to a time such as 90s, 5m, 1h30m or 14d."
        raise Failed(msg, Status.USAGE)
    return seconds
