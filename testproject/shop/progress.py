"""One line that tells how far the work is."""

from __future__ import annotations

import shutil
from time import monotonic
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from django.core.management.base import OutputWrapper

SECONDS_BETWEEN_LINES = 2.0  # where a line cannot be written over


class Progress:
    """On a terminal a line that is written over; elsewhere a line every few seconds."""

    def __init__(self, stream: OutputWrapper) -> None:
        """Write to ``stream``."""
        self.stream = stream
        self.live = stream.isatty()
        self.text = ""
        self.next_at = monotonic() + SECONDS_BETWEEN_LINES

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last word standing."""
        if self.live and self.text:
            self.stream.write("")
        elif self.text:
            self._print(self.text)

    def show(self, text: str) -> None:
        """Show ``text`` in place of what was shown last."""
        self.text = text
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            self._write_over(text[:width])
        elif monotonic() >= self.next_at:
            self._print(text)

    def _write_over(self, text: str) -> None:
        self.stream.write(f"\r\x1b[K{text}", ending="")
        self.stream.flush()

    def _print(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
        self.text = ""
        self.next_at = monotonic() + SECONDS_BETWEEN_LINES
