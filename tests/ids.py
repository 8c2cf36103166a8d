"""Names of test cases that are the same in every process."""

from __future__ import annotations

import re


def shown(value: object) -> str:
    """The value as it is written, without the addresses of functions in it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
