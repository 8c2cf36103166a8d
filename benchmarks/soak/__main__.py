"""``python -m benchmarks.soak --seed N``: exit 1 when SQL finds anything wrong."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from benchmarks.soak.chaos import Plan
from benchmarks.soak.diamond import Diamond, soak_diamond
from benchmarks.soak.run import soak


def main(words: list[str]) -> int:
    """Run one soak and print its verdict."""
    parser = ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=Plan(0).jobs)
    given = parser.parse_args(words)
    print(f"seed {given.seed}", flush=True)
    verdicts = [soak(Plan(seed=given.seed, jobs=given.jobs)), soak_diamond(Diamond(given.seed))]
    for verdict in verdicts:
        print("\n".join(verdict.lines()), flush=True)
    return 0 if all(verdict.holds for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
