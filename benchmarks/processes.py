"""Child processes that never outlive a measurement."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from benchmarks.environment import ROOT, variables


def wait_for(
    true: Callable[[], object], *, seconds: float, what: str, pause: float = 0.01
) -> None:
    """Return once ``true()`` holds; raise TimeoutError with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(pause)


class Process:
    """One child in a process group of its own, its words in a file."""

    def __init__(self, words: Sequence[str], *, log_path: Path, env: Mapping[str, str]) -> None:
        self.log_path = log_path
        with log_path.open("wb") as log:
            self.popen = subprocess.Popen(
                list(words),
                cwd=ROOT,
                env=variables(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    def is_alive(self) -> bool:
        """Tell whether it still runs."""
        return self.popen.poll() is None

    def log(self) -> str:
        """All that it has written."""
        return self.log_path.read_text(errors="replace")

    def kill(self) -> None:
        """End it, and what it started, without a word."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait()

    def wait(self, *, seconds: float = 60) -> int:
        """Return its exit status; it is killed when that takes too long."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"it did not end in {seconds:g} s:\n{self.log()}") from None


class Processes:
    """Starts children; leaving kills those that still run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.all: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            if process.is_alive():
                process.kill()

    def start(self, words: Sequence[str], *, env: Mapping[str, str]) -> Process:
        """Start one; return at once."""
        log_path = self.folder / f"process-{len(self.all) + 1}.log"
        process = Process(words, log_path=log_path, env=env)
        self.all.append(process)
        return process

    def alive(self) -> list[Process]:
        """Those that still run."""
        return [process for process in self.all if process.is_alive()]

    def check(self) -> None:
        """Raise when one has ended by itself."""
        for process in self.all:
            if not process.is_alive():
                status = process.popen.returncode
                raise RuntimeError(f"a worker ended with {status}:\n{process.log()[-4000:]}")
