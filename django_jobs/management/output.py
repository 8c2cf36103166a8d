"""How ``manage.py jobs`` answers: a table for people, or a JSON object a line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from unicodedata import combining, east_asian_width
from uuid import UUID

Record = Mapping[str, Any]
Columns = Mapping[str, Callable[[Any], object]]

GAP = "  "
NARROWEST = 8  # of a column that is cut to fit a terminal
MINUTE, HOUR, DAY = 60, 3600, 86_400


class Writer(Protocol):
    """Where lines go; Django's wrapper of standard output is one."""

    def write(self, text: str) -> Any:
        """Write a line."""

    def isatty(self) -> bool:
        """Tell whether a person reads it."""


class Output:
    """What a verb says; ``json`` chooses for whom.

    A table is cut to the width of a terminal, and never when it goes to a file or a pipe.
    There is no colour and no picture: every state is a word.
    """

    def __init__(self, writer: Writer, *, json: bool) -> None:
        """``json``: one object a line with stable keys and raw values, and nothing else."""
        self._writer = writer
        self.json = json

    def say(self, line: str = "") -> None:
        """Write a line for people; silent with ``--json``."""
        if not self.json:
            self._writer.write(printable(line))

    def record(self, record: Record) -> None:
        """Write one JSON object; silent without ``--json``."""
        if self.json:
            self._writer.write(json.dumps(record, default=_raw))

    def show(self, records: Iterable[Record], columns: Columns, *, none: str) -> None:
        """Write ``records``: whole as JSON, or as a table of ``columns``.

        A column is a heading and what to print of a record; whole numbers stand to the
        right. ``none`` is what to say when there is nothing.
        """
        found = list(records)
        for record in found:
            self.record(record)
        if self.json:
            return
        if not found:
            self.say(none)
            return
        cells = [[cell(record) for cell in columns.values()] for record in found]
        for line in lines(list(columns), cells, width=self._width()):
            self._writer.write(line)

    def _width(self) -> int | None:
        return shutil.get_terminal_size().columns if self._writer.isatty() else None


def lines(
    headings: Sequence[str], cells: Sequence[Sequence[object]], *, width: int | None
) -> list[str]:
    """Return a table; at most ``width`` wide, where that is possible."""
    texts = [list(headings), *([printable(_text(cell)) for cell in row] for row in cells)]
    is_number = [all(_is_number(row[n]) for row in cells) for n in range(len(headings))]
    widths = [max(_wide(row[n]) for row in texts) for n in range(len(headings))]
    if width is not None:
        _narrow(widths, width - len(GAP) * (len(widths) - 1))
    return [
        GAP.join(
            _padded(text, wide, to_the_right=right)
            for text, wide, right in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in texts
    ]


def _narrow(widths: list[int], total: int) -> None:
    """Take from the widest column until all fit, or none can give any more."""
    while sum(widths) > total and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1


def _padded(text: str, wide: int, *, to_the_right: bool) -> str:
    if _wide(text) > wide:
        while _wide(text) > wide - 1:
            text = text[:-1]
        text += "…"
    blanks = " " * (wide - _wide(text))
    return blanks + text if to_the_right else text + blanks


def _wide(text: str) -> int:
    """Return how many places of a terminal ``text`` takes."""
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )


def _is_number(cell: object) -> bool:
    return cell is None or (isinstance(cell, int) and not isinstance(cell, bool))


def _text(cell: object) -> str:
    return "-" if cell is None or cell == "" else str(cell)


def printable(text: str) -> str:
    """Return ``text`` without what would steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def duration(seconds: float) -> str:
    """Say how long: ``0.4s``, ``14m02s``, ``3h05m``, ``2d4h``."""
    if seconds < 10:  # noqa: PLR2004 - below that tenths are of interest
        return f"{max(seconds, 0.0):.1f}s"
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // MINUTE}m{whole % MINUTE:02d}s"
    if whole < DAY:
        return f"{whole // HOUR}h{whole % HOUR // MINUTE:02d}m"
    return f"{whole // DAY}d{whole % DAY // HOUR}h"


def _raw(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    msg = f"{type(value).__name__} cannot be written as JSON"
    raise TypeError(msg)
