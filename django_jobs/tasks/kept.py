"""What stands for an argument that was not given, where None says something."""

from __future__ import annotations

from enum import Enum


class Kept(Enum):
    """The one value that nobody gives; an enum, so that copies and pickles are it, too."""

    KEPT = "kept"

    def __repr__(self) -> str:
        """Show how a signature reads."""
        return "…"
