"""The statements that are the product, and the two kinds of connection that run them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from django.db import connections

Row = tuple[Any, ...]
COMMENT = re.compile(r"\s*--.*")  # no text in a statement holds two dashes


@cache
def load(name: str) -> str:
    """Return the statement in ``sql/<name>.sql``, its comments left out.

    psycopg converts a text of more than 4,096 characters anew each time.
    """
    text = files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return COMMENT.sub("", text)


class Database(Protocol):
    """What an operation needs of a connection: one statement in, its rows out."""

    alias: str

    def fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Run the statement ``sql/<name>.sql`` and return its rows."""


class SiteDatabase:
    """The caller's own connection of an alias: what is written joins its transaction."""

    def __init__(self, alias: str) -> None:
        """Use Django's connection ``alias`` of the calling thread."""
        self.alias = alias

    def fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Run a statement; a failure inside ``atomic`` leaves it as Django does."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute(load(name), params)
            return cursor.fetchall() if cursor.description else []


def array(values: Iterable[object]) -> str:
    """Write numbers and booleans as an array literal.

    A list of Python integers is sent as int2[], int4[] or int8[] by its largest value,
    which would prepare one statement for each; a literal is always cast where it is used.
    """
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def text_array(values: Iterable[str | None]) -> str:
    """Write texts as an array literal; nothing but NULLs is written as no element at all.

    It goes to an ``unnest`` with longer ones, which pads it.
    """
    parts = ["NULL" if value is None else _quoted(value) for value in values]
    return "{" + ",".join(parts) + "}" if any(part != "NULL" for part in parts) else "{}"


def _quoted(text: str) -> str:
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
