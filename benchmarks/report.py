"""The report of a run: as JSON, as Markdown, and as the table at its end."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Target, spread

FOLDER = Path(__file__).resolve().parent
SHOWN = ("django", "django-tasks", "django-tasks-db", "django-jobs", "psycopg", "psycopg-binary")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what was measured, each repetition, and the median."""

    case: str
    system: str
    unit: str
    figures: Sequence[float]
    median: float
    note: str = ""

    @property
    def spread(self) -> float:
        """How far apart the repetitions are, as a part of the median."""
        return spread(self.figures)


def machine() -> dict[str, Any]:
    """Return what a reader must know of this machine to compare figures."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "load at the start": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@dataclass(slots=True)
class Report:
    """All that one run has found."""

    command: str
    options: dict[str, Any]
    server: Mapping[str, str]
    versions: dict[str, Mapping[str, str]]
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    machine: dict[str, Any] = field(default_factory=machine)
    rows: list[Row] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """True when no target was missed."""
        return all(target.met for target in self.targets)

    def write(self, folder: Path = FOLDER, name: str = "report") -> None:
        """Write it as JSON and as Markdown, under one name."""
        (folder / f"{name}.json").write_text(json.dumps(self.plain(), indent=2) + "\n")
        (folder / f"{name}.md").write_text("\n".join(self._markdown()) + "\n")

    def plain(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        targets = [{**asdict(target), "met": target.met} for target in self.targets]
        rows = [asdict(row) for row in self.rows]
        names = ("when", "command", "options", "machine", "server", "versions")
        return {**{name: getattr(self, name) for name in names}, "rows": rows, "targets": targets}

    def table(self) -> list[str]:
        """Return the figures in columns, then the targets."""
        cells = [HEAD, *(_cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
        return [*lines, "", *(str(target) for target in self.targets)]

    def _markdown(self) -> Iterator[str]:
        yield "# Benchmark"
        yield ""
        yield f"Measured on {self.when} by `{self.command}`; all figures are from that run."
        yield "Each figure is the median of its repetitions; the systems took turns."
        yield "The spread is (largest - smallest) / median."
        yield ""
        yield from _bullets("Machine", self.machine)
        yield from _bullets("PostgreSQL", self.server)
        for name, versions in self.versions.items():
            yield from _bullets(f"Environment of {name}", _shown(versions))
        yield from _bullets("Options", self.options)
        yield from ["## Figures", ""]
        yield from _grid([HEAD, *(_cells(row) for row in self.rows)])
        yield from ["", "## Targets", ""]
        head = ("target", "bound", "figure", "met")
        yield from _grid([head, *(_verdict(target) for target in self.targets)])


HEAD = ("case", "system", "median", "unit", "spread", "repetitions", "note")


def _cells(row: Row) -> tuple[str, ...]:
    each = " ".join(_number(figure) for figure in row.figures)
    median, wide = _number(row.median), f"{row.spread:.0%}"
    return row.case, row.system, median, row.unit, wide, each, row.note


def _verdict(target: Target) -> tuple[str, ...]:
    bound = f"{target.bound} {target.limit:g}"
    return target.name, bound, f"{target.figure:.3g}", "yes" if target.met else "**no**"


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _grid(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"| {' | '.join(line)} |"
        if not number:
            yield f"|{'---|' * len(line)}"


def _bullets(title: str, facts: Mapping[str, Any]) -> Iterator[str]:
    told = ", ".join(f"{name} {value}" for name, value in facts.items())
    yield f"- {title}: {told}"


def _shown(versions: Mapping[str, str]) -> dict[str, str]:
    lower = {name.lower().replace("_", "-"): version for name, version in versions.items()}
    return {name: lower[name] for name in SHOWN if name in lower}
