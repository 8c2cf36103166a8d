"""``python -m benchmarks``: measure, write the report, exit 1 when a target is missed.

With ``--ballast unplaceable,paused --rows 1000000`` django_jobs alone is measured, beside so
many rows of each kind and without them.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.ballast import KINDS
from benchmarks.cases.beside import Beside, Load
from benchmarks.environment import FOLDER
from benchmarks.measure import QUICK, Bench, Sizes
from benchmarks.progress import say
from benchmarks.report import FOLDER as KEPT
from benchmarks.report import Report
from benchmarks.server import Server
from benchmarks.systems import NAMES, System, ours, systems

REQUIRED, WHOLE = ("unplaceable", "paused"), 1_000_000  # what the report that is kept is of
CASES = ("tuning", "drain", "latency", "enqueue", "clients", "counts")


def arguments(words: list[str]) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few jobs: to see that it runs")
    parser.add_argument("--cases", default=",".join(CASES), help="of %(default)s")
    parser.add_argument("--systems", default=",".join(NAMES), help="of %(default)s")
    parser.add_argument("--caps", default="50", help="of drains, for instance 1,6,50,100")
    parser.add_argument("--ballast", default="", help=f"rows beside: of {','.join(KINDS)}")
    parser.add_argument("--rows", type=int, default=WHOLE, help="of each kind (%(default)s)")
    given = parser.parse_args(words)
    given.cases = _chosen(parser, given.cases, CASES)
    given.systems = _chosen(parser, given.systems, NAMES)
    given.ballast = given.ballast and _chosen(parser, given.ballast, tuple(KINDS))
    given.caps = [int(cap) for cap in given.caps.split(",")]
    return given


def _chosen(parser: ArgumentParser, text: str, known: tuple[str, ...]) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            parser.error(f"{name!r} is none of {', '.join(known)}")
    return names


def main(words: list[str]) -> int:
    """Measure; return the exit status."""
    given = arguments(words)
    return _beside(given, words) if given.ballast else _peers(given, words)


def _beside(given: Namespace, words: list[str]) -> int:
    system = ours.SYSTEM
    system.environment.make()
    load = Load(kinds=given.ballast, rows=given.rows)
    load = replace(load, jobs=QUICK.jobs) if given.quick else load
    report = _report(words, asdict(load), [system])
    Beside(load, report).run()
    whole = not given.quick and (sorted(load.kinds), load.rows) == (sorted(REQUIRED), WHOLE)
    return _end(report, KEPT if whole else FOLDER, "ballast")


def _peers(given: Namespace, words: list[str]) -> int:
    sizes = QUICK if given.quick else Sizes()
    chosen = systems(given.systems)
    for system in {each.name: each for each in [*systems(["ours"]), *chosen]}.values():
        system.environment.make()
    options = {"cases": ",".join(given.cases), "caps": str(given.caps), **asdict(sizes)}
    report = _report(words, options, chosen)
    Bench(chosen, sizes, given.caps, report).run(given.cases)
    # a part of the figures does not replace the report that is kept
    whole = not given.quick and (given.cases, given.systems) == (list(CASES), list(NAMES))
    return _end(report, KEPT if whole else FOLDER, "report")


def _report(words: list[str], options: dict[str, Any], chosen: Sequence[System]) -> Report:
    command = " ".join(["python -m benchmarks", *words])
    versions: dict[str, Mapping[str, str]] = {
        system.label: system.environment.versions() for system in chosen
    }
    return Report(command=command, options=options, server=_server(), versions=versions)


def _end(report: Report, folder: Path, name: str) -> int:
    report.write(folder, name)
    say(f"wrote {name}.md and {name}.json to {folder}")
    print("\n".join(report.table()))
    return 0 if report.met else 1


def _server() -> dict[str, str]:
    with Server() as server:
        return server.settings()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
