"""The ports that a worker listens on besides its work: chosen by a flag, and refused."""

from __future__ import annotations

import os
import re

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a container is asked from outside of it
HIGHEST = 65_535
PROCESS = "DJANGO_JOBS_PROCESS"  # which of a parent's processes this is, from 0


class PortRefused(Exception):
    """Nothing can be served as asked; the message names the cure."""


def chosen(text: str, *, flag: str) -> int:
    """Return the port that ``flag`` says, for this process: of several the k-th takes it + k.

    0, which is any free port, is 0 in each. Raise PortRefused for what is no port.
    """
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > HIGHEST:
        msg = f"{flag} is {text!r:.60}. Set it to a whole number from 0 to {HIGHEST}."
        raise PortRefused(msg)
    number = int(text)
    if number:
        number += _process()
    if number > HIGHEST:
        msg = f"{flag} {text}: process {_process()} would take {number}. Choose a lower one."
        raise PortRefused(msg)
    return number


def refusal(error: OSError, *, flag: str, host_flag: str, port: int, host: str) -> PortRefused:
    """Return what is raised when a port cannot be had."""
    return PortRefused(
        f"{flag} {port} cannot be served on {host}: {error.strerror or error}."
        f" Choose a free port, or 0 for any, and {host_flag} for another address."
    )


def _process() -> int:
    said = os.environ.get(PROCESS, "")
    return int(said) if said.isascii() and said.isdecimal() else 0
