"""``--reload``: a parent that watches source files and restarts the worker by SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import sleep

from django.apps import apps
from django.utils.autoreload import iter_all_python_module_files

from django_jobs.worker.lifeline import Lifeline

LOOK_SECONDS = 0.5
INSTALLED = ("site-packages", "dist-packages")


def watched() -> Iterator[Path]:
    """Yield the source files of this project: of loaded modules and of its apps."""
    yield from iter_all_python_module_files()
    for config in apps.get_app_configs():
        if not any(part in INSTALLED for part in Path(config.path).parts):
            yield from Path(config.path).rglob("*.py")


def snapshot() -> dict[Path, float]:
    """Return the time of the last change of each watched file."""
    times = {}
    for path in set(watched()):
        try:
            times[path] = path.stat().st_mtime
        except OSError:  # deleted between the look and here
            continue
    return times


class Parent:
    """Owns one child process at a time and passes signals on to it."""

    def __init__(self) -> None:
        """It starts this very command again, without ``--reload``."""
        self._lifeline = Lifeline("reload")
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Keep a child running until a signal stops it; return its exit status."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._pass_on)
        while True:
            before = snapshot()
            self._child = self._lifeline.start()
            changed = self._wait_for_change(before)
            if changed:
                sys.stderr.write("jobworker: source changed, restarting\n")
                self._child.send_signal(signal.SIGTERM)
                self._child.wait()
            if not changed or self._stopping:
                return self._child.returncode

    def _wait_for_change(self, before: dict[Path, float]) -> bool:
        """Return True when a file changed, False when the child is to be left ended."""
        assert self._child is not None
        while True:
            sleep(LOOK_SECONDS)
            if snapshot() != before:
                return not self._stopping
            status = self._child.poll()
            if status is not None and (self._stopping or status == 0):
                return False  # a child that failed waits for the change that mends it

    def _pass_on(self, signum: int, _frame: object) -> None:
        self._stopping = True
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signum)
        else:
            os._exit(128 + signum)


def run_reloading() -> int:
    """Run this very command without ``--reload``, under a parent that restarts it."""
    return Parent().run()
