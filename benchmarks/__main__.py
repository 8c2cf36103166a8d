"""``python -m benchmarks``: measure, write the report, exit 1 when a target is missed."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import asdict

from benchmarks.environment import FOLDER
from benchmarks.measure import QUICK, Bench, Sizes
from benchmarks.progress import say
from benchmarks.report import FOLDER as KEPT
from benchmarks.report import Report
from benchmarks.server import Server
from benchmarks.systems import NAMES, System, systems

CASES = ("tuning", "drain", "latency", "enqueue", "counts")


def arguments(words: list[str]) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few jobs: to see that it runs")
    parser.add_argument("--cases", default=",".join(CASES), help="of %(default)s")
    parser.add_argument("--systems", default=",".join(NAMES), help="of %(default)s")
    parser.add_argument("--caps", default="50", help="of drains, for instance 1,6,50,100")
    given = parser.parse_args(words)
    given.cases = _chosen(parser, given.cases, CASES)
    given.systems = _chosen(parser, given.systems, NAMES)
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
    sizes = QUICK if given.quick else Sizes()
    chosen = systems(given.systems)
    for system in {each.name: each for each in [*systems(["ours"]), *chosen]}.values():
        system.environment.make()
    report = Report(
        command=" ".join(["python -m benchmarks", *words]),
        options={"cases": ",".join(given.cases), "caps": str(given.caps), **asdict(sizes)},
        server=_server(),
        versions=_versions(chosen),
    )
    Bench(chosen, sizes, given.caps, report).run(given.cases)
    # a part of the figures does not replace the report that is kept
    whole = not given.quick and (given.cases, given.systems) == (list(CASES), list(NAMES))
    folder = KEPT if whole else FOLDER
    report.write(folder)
    say(f"wrote report.md and report.json to {folder}")
    print("\n".join(report.table()))
    return 0 if report.met else 1


def _server() -> dict[str, str]:
    with Server() as server:
        return server.settings()


def _versions(chosen: list[System]) -> dict[str, Mapping[str, str]]:
    return {system.label: system.environment.versions() for system in chosen}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
