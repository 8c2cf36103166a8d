"""The sentences that the reference promises, as patterns."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "reasons.md"
ROW = re.compile(r"^\| `(?P<situation>\w+)` \| (?P<sentence>.*?) \| .* \|$")
FACT = re.compile(r"%\((\w+)\)s")


def sentences() -> dict[str, str]:
    """Return situation → its sentence, as the table of situations has it."""
    table = PAGE.read_text().split("\n| Situation | Sentence |")[1].partition("\n\n")[0]
    rows = (ROW.match(line) for line in table.splitlines())
    return {row["situation"]: row["sentence"] for row in rows if row}


def pattern(situation: str, **facts: str) -> re.Pattern[str]:
    """Return what a page must say; a fact that is not given may be anything."""
    parts = FACT.split(sentences()[situation])
    found = [
        re.escape(part) if number % 2 == 0 else re.escape(facts[part]) if part in facts else ".+"
        for number, part in enumerate(parts)
    ]
    return re.compile("".join(found))
