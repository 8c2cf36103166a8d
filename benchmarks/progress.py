"""Progress goes to stderr, so that stdout has the figures alone."""

from __future__ import annotations

import sys
from time import monotonic

_begun = monotonic()


def say(text: str) -> None:
    """Print one line with the seconds since the start."""
    print(f"[{monotonic() - _begun:7.1f}] {text}", file=sys.stderr, flush=True)
