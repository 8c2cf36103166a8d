"""The line of progress, on a terminal and elsewhere."""

from __future__ import annotations

import io

from django.core.management.base import OutputWrapper

from testproject.shop.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_progress_is_written_over_on_a_terminal():
    stream = Terminal()

    with Progress(OutputWrapper(stream)) as progress:
        progress.show("1 of 2")
        progress.show("2 of 2")

    assert "\r\x1b[K1 of 2\r\x1b[K2 of 2\n" == stream.getvalue()


def test_progress_elsewhere_is_a_line_now_and_then_and_the_last():
    stream = io.StringIO()

    with Progress(OutputWrapper(stream)) as progress:
        progress.show("1 of 3")
        progress.next_at = 0
        progress.show("2 of 3")
        progress.show("3 of 3")

    assert "2 of 3\n3 of 3\n" == stream.getvalue()
