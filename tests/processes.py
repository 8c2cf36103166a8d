"""Real worker processes, for tests that signal, kill or outlive them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from django.db import connection

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 20.0  # more than any wait needs on a busy machine


def wait_for(true: Callable[[], object], *, seconds: float = SECONDS, what: str = "") -> None:
    """Return once ``true()`` holds; fail with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {seconds} s in vain. {what}")
        time.sleep(0.02)


class Process:
    """One ``manage.py`` process and what it has said so far."""

    def __init__(self, words: list[str], *, log_path: Path, env: Mapping[str, str]) -> None:
        self.log_path = log_path
        with log_path.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "manage.py", *words],
                cwd=ROOT,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C at the terminal is for pytest alone
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.popen.pid

    def log(self) -> str:
        """All that it has written."""
        return self.log_path.read_text(errors="replace")

    def wait_for_log(self, text: str, *, seconds: float = SECONDS) -> str:
        """Wait until its log contains ``text``; return the log."""

        def said() -> bool:
            if self.popen.poll() is not None and text not in self.log():
                raise AssertionError(f"It ended without saying {text!r}:\n{self.log()}")
            return text in self.log()

        wait_for(said, seconds=seconds, what=f"{text!r} is not in:\n{self.log()}")
        return self.log()

    def signal(self, number: int) -> None:
        """Send it one signal."""
        self.popen.send_signal(number)

    def term(self) -> None:
        """Ask it to drain."""
        self.signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Suspend it, as a paused machine would."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it, and what it started, without a word; return once it is gone."""
        if self.popen.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait()

    def wait(self, timeout: float = SECONDS) -> int:
        """Return its exit status; fail with its log when it does not end in time."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"It did not end within {timeout} s:\n{self.log()}") from None


class JobWorkers:
    """Starts ``manage.py jobworker`` on the test database; all are killed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Process] = []

    def __call__(self, *flags: str, **environment: str) -> Process:
        """Start ``manage.py jobworker FLAGS`` with more environment; return at once."""
        return self.command("jobworker", *flags, **environment)

    def command(self, *words: str, **environment: str) -> Process:
        """Start any other management command in the same way."""
        log_path = self.folder / f"{words[0]}-{len(self.started)}.log"
        name = str(connection.settings_dict["NAME"])
        env = {**os.environ, "DJANGO_JOBS_TEST_DATABASE": name, **environment}
        process = Process(list(words), log_path=log_path, env=env)
        self.started.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started:
            process.kill()
