"""As much of PromQL as our queries use: what they name, and by which labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

FUNCTIONS = {"ceil", "histogram_quantile", "increase", "rate"}
AGGREGATES = {"max", "min", "sum"}
TOKEN = re.compile(
    r"\s*(?:(?P<word>[a-zA-Z_:$][\w:$]*)|(?P<number>\d+(?:\.\d+)?)|(?P<text>\"[^\"]*\")"
    r"|(?P<span>\[[^\]]+\])|(?P<sign>=~|!~|!=|>=|<=|==|[-+*/<>(){},=]))"
)


class Named(NamedTuple):
    """One selector of a query."""

    metric: str
    matched: frozenset[str]  # labels in its braces
    within: tuple[str, ...]  # the functions and aggregates around it, outermost first
    by: frozenset[str]  # labels that some aggregate around it keeps
    ranged: bool


class Query:
    """Reads one query; a SyntaxError for what it does not know."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Named] = []
        self._tokens = [*tokens(text), ("end", "")]
        self._at = 0
        self._expression((), frozenset())
        self._take("end")

    def _expression(self, within: tuple[str, ...], by: frozenset[str]) -> None:
        self._operand(within, by)
        while self._next()[1] in ("+", "-", "*", "/", ">", "<", ">=", "<=", "=="):
            self._at += 1
            self._operand(within, by)

    def _operand(self, within: tuple[str, ...], by: frozenset[str]) -> None:
        kind, text = self._next()
        self._at += 1
        if kind == "number":
            return
        if text == "(":
            self._expression(within, by)
            self._take(")")
        elif text in AGGREGATES:
            self._call(text, within, by | self._kept())
        elif text in FUNCTIONS:
            self._call(text, within, by)
        elif kind == "word":
            self._selector(text, within, by)
        else:
            raise SyntaxError(f"{text!r} in {self.text}")

    def _kept(self) -> frozenset[str]:
        if self._next()[1] != "by":
            return frozenset()
        self._at += 1
        return self._list("(", ")")

    def _call(self, name: str, within: tuple[str, ...], by: frozenset[str]) -> None:
        self._take("(")
        self._expression((*within, name), by)
        while self._next()[1] == ",":
            self._at += 1
            self._expression((*within, name), by)
        self._take(")")

    def _selector(self, metric: str, within: tuple[str, ...], by: frozenset[str]) -> None:
        matched: set[str] = set()
        if self._next()[1] == "{":
            self._at += 1
            while self._next()[1] != "}":
                matched.add(self._take("word"))
                self._take("=", "=~", "!=", "!~")
                self._take("text")
                if self._next()[1] == ",":
                    self._at += 1
            self._take("}")
        ranged = self._next()[0] == "span"
        self._at += ranged
        self.found.append(Named(metric, frozenset(matched), within, by, ranged))

    def _list(self, first: str, last: str) -> frozenset[str]:
        self._take(first)
        names = {self._take("word")}
        while self._next()[1] == ",":
            self._at += 1
            names.add(self._take("word"))
        self._take(last)
        return frozenset(names)

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _take(self, *wanted: str) -> str:
        kind, text = self._next()
        if kind not in wanted and text not in wanted:
            raise SyntaxError(f"{text!r} instead of {wanted} in {self.text}")
        self._at += 1
        return text


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each token."""
    at, end = 0, len(text.rstrip())
    while at < end:
        found = TOKEN.match(text, at)
        if found is None:
            raise SyntaxError(f"{text[at:]!r} in {text}")
        yield str(found.lastgroup), found[str(found.lastgroup)]
        at = found.end()
