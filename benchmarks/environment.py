"""A virtual environment for each system, made once and kept under var/bench/."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.progress import say

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "var" / "bench"


@dataclass(frozen=True, slots=True)
class Environment:
    """The packages that one system needs, and nothing else."""

    name: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Another interpreter or other packages make another environment."""
        needed = [self.requirements, _dependencies()]  # ours brings its own
        stamp = json.dumps([sys.version, str(ROOT), needed])
        return FOLDER / f"{self.name}-{hashlib.sha256(stamp.encode()).hexdigest()[:8]}"

    @property
    def python(self) -> Path:
        """Its interpreter; ``make`` has put it there."""
        return self.folder / "bin" / "python"

    def make(self) -> None:
        """Install what it needs, unless that has been done."""
        ready = self.folder / "ready"
        if ready.exists():
            return
        say(f"installing {self.name}: {' '.join(self.requirements)}")
        venv.create(self.folder, clear=True, with_pip=True)
        words = [word for each in self.requirements for word in each.split()]
        self.run("-m", "pip", "install", "--quiet", *words)
        ready.touch()

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """Run its interpreter to the end; return what it printed."""
        done = subprocess.run(
            [str(self.python), *words],
            check=False,
            cwd=ROOT,
            env=variables(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(words)} ended with {done.returncode}")
        return done.stdout

    def versions(self) -> dict[str, str]:
        """Return package → version of all that is installed."""
        listed = json.loads(self.run("-m", "pip", "list", "--format", "json"))
        return {each["name"]: each["version"] for each in listed}


@cache
def _dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"]]


def variables(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child: the checkout importable, nothing of ours set."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DJANGO_", "BENCH_", "PYTHON", "PG")) and name != "DATABASE_URL"
    }
    return {**kept, "PYTHONPATH": str(ROOT), **more}
