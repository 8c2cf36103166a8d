"""A drain, and enqueues, beside rows that nobody may run or that are purged, and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchmarks import ballast
from benchmarks.cases.drain import drain
from benchmarks.cases.enqueue import pairs
from benchmarks.figures import Target, middle, percentile
from benchmarks.progress import say
from benchmarks.report import Report, Row
from benchmarks.server import Connection, Server
from benchmarks.systems.ours import SYSTEM, Ours

CAP = 50
MICRO = 1_000_000
HELD = 0.9  # of the speed of an enqueue without


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many jobs are drained beside how many rows of which kinds."""

    kinds: Sequence[str]
    rows: int  # of each kind
    jobs: int = 20_000
    enqueues: int = 600
    repetitions: int = 3

    def __str__(self) -> str:
        """Name the rows."""
        return f"{self.rows:,} {' and as many '.join(self.kinds)}"


class Side(NamedTuple):
    """One of the two that are compared: a database to copy, and who drains it."""

    label: str
    template: str
    system: Ours


class Beside:
    """Both sides on one server, each template made once."""

    def __init__(self, load: Load, report: Report, *, system: Ours = SYSTEM) -> None:
        self.load = load
        self.report = report
        self.system = replace(system, queues=ballast.QUEUES)
        self._server: Server

    def run(self) -> None:
        """Measure drains with statistics and without, then enqueues, which need none."""
        with Server() as self._server:
            sides = [self._side("without", ()), self._side("with", self.load.kinds)]
            for analysed in (True, False):
                self._compare(sides, analysed=analysed)
            self._compare_enqueues(sides)

    def _side(self, name: str, kinds: Sequence[str]) -> Side:
        """Make a template: the same tables, worker and queues, with ballast or without."""
        label = f"{name} ballast"
        say(f"preparing the tables {label}")
        template = self._server.create(name=f"template_{name}")
        self.system.prepare(self._server.url(template))
        with self._server.connect(template) as connection:
            ballast.prepare(connection)
            last = ballast.load(connection, kinds, self.load.rows)
        return Side(label, template, replace(self.system, last_ballast=last))

    def _compare(self, sides: list[Side], *, analysed: bool) -> None:
        known = "analysed" if analysed else "not analysed"
        rates: list[list[float]] = [[], []]
        for place in self._turns():
            rates[place].append(self._drain(sides[place], analysed=analysed))
            say(f"{known}, {sides[place].label}: {rates[place][-1]:,.0f} jobs/s")
        for side, found in zip(sides, rates, strict=True):
            case = f"drain, cap {CAP}, {known}"
            row = Row(case, side.label, "jobs/s", found, middle(found), note=str(self.load))
            self.report.rows.append(row)
        name = f"drain beside {self.load} rows, {known}: with / without"
        least = min(ballast.LEAST[kind] for kind in self.load.kinds)
        self._judge(name, least, *rates)

    def _compare_enqueues(self, sides: list[Side]) -> None:
        times: list[list[float]] = [[], []]
        for place in self._turns():
            side = sides[place]
            count, system = self.load.enqueues, side.system
            found = pairs(self._server, side.template, count=count, system=system)
            times[place].append(percentile(found["enqueue"], 50) * MICRO)
            say(f"enqueue, {side.label}: {times[place][-1]:,.0f} µs")
        for side, each in zip(sides, times, strict=True):
            case, note = "single enqueue, p50", str(self.load)
            self.report.rows.append(Row(case, side.label, "µs", each, middle(each), note=note))
        name = f"speed of an enqueue beside {self.load} rows: with / without"
        self._judge(name, HELD, *([1 / each for each in medians] for medians in times))

    def _turns(self) -> Iterator[int]:
        """Yield whose turn it is; neither side always follows the other."""
        for number in range(self.load.repetitions):
            yield from (0, 1) if number % 2 == 0 else (1, 0)

    def _judge(self, name: str, least: float, alone: list[float], beside: list[float]) -> None:
        """Compare within each repetition: its two sides ran one after the other."""
        each = [there / here for here, there in zip(alone, beside, strict=True)]
        self.report.targets.append(Target(name, "at least", least, middle(each)))

    def _drain(self, side: Side, *, analysed: bool) -> float:
        return drain(
            side.system,
            self._server,
            side.template,
            jobs=self.load.jobs,
            cap=CAP,
            analysed=analysed,
            check_more=lambda watcher: self._check(watcher, side.system.last_ballast),
        ).rate

    def _check(self, watcher: Connection, last: int) -> None:
        ballast.check(watcher, last)
        if last and ballast.PURGED in self.load.kinds:
            left = ballast.check_purge(watcher, last, self.load.rows)
            say(f"{self.load.rows - left:,} rows were purged meanwhile")
