"""Stored JSON as text to read, whatever it holds and however long it is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, F, Func, IntegerField, TextField, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Left
from django.db.models.lookups import LessThanOrEqual

READ = 256 * 1024  # bytes of a stored text that are read whole; of a longer one its beginning
SHOWN = 16 * 1024  # characters that a page shows


@dataclass(frozen=True, slots=True)
class Pretty:
    """What is shown of a text; ``cut`` when that is not all."""

    text: str
    cut: bool = False


def stored(column: str) -> Combinable:
    """Return an expression that reads JSON as text, of a huge one the beginning.

    As text it is read without being decoded: a row that says no JSON can be shown too.
    """
    text = Cast(F(column), TextField())
    size = Func(text, function="octet_length", output_field=IntegerField())
    return Case(
        When(LessThanOrEqual(size, Value(READ)), then=text),
        default=Left(text, SHOWN + 1),
        output_field=TextField(),
    )


def pretty(text: str | None) -> Pretty | None:
    """Indent JSON; a text that is none, or too long or too deep, is shown as it is."""
    if text is None:
        return None
    try:
        lines = json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text))
        return _first(lines)
    except (ValueError, RecursionError):
        return shown(text)


def _first(pieces: Iterable[str]) -> Pretty:
    """Join pieces until they are long enough: nesting would make endless indents."""
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > SHOWN:
            break
    return shown(text)


def shown(text: str) -> Pretty:
    """Cut a text to what a page shows, and escape the surrogates that it cannot."""
    escaped = text[: SHOWN + 1].encode("utf-8", "backslashreplace").decode()
    return Pretty(escaped[:SHOWN], cut=len(escaped) > SHOWN)


def decoded(text: str | None) -> dict[str, Any]:
    """Return the JSON object in a text; empty when there is none."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
