"""A child that runs this very command, and that learns when its parent is gone."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from django_jobs.ports import PROCESS

logger = logging.getLogger("django_jobs.worker")

VARIABLE = "DJANGO_JOBS_LIFELINE"


class Lifeline:
    """The parent's end of a pipe that nobody writes to: when it closes, children drain.

    It closes with the parent, however that ends. To close it asks for a drain once: a service
    manager that signals all processes of a service has sent one of its own already, and a
    second signal would hurry them.
    """

    def __init__(self, *does: str) -> None:
        """``does``: the flags that the parent carries out itself, so that no child does."""
        self._does = ",".join(does)
        self._reader, self._writer = os.pipe()

    def start(self, number: int | None = None) -> subprocess.Popen[bytes]:
        """Run this very command again, by exec; the child finds its end by ``held()``.

        ``number`` is which of several it is: that many ports above the flags' it listens.
        """
        inode = os.fstat(self._reader).st_ino
        which = {} if number is None else {PROCESS: str(number)}
        return subprocess.Popen(  # noqa: S603 - the words that started this process
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, VARIABLE: f"{self._reader}:{inode}:{self._does}", **which},
            pass_fds=[self._reader],
            start_new_session=True,  # Ctrl-C reaches it through this parent, once
        )

    def close(self) -> None:
        """Let go of the children: they drain."""
        os.close(self._writer)
        os.close(self._reader)


class Held:
    """The child's end."""

    def __init__(self, reader: int | None, does: frozenset[str]) -> None:
        """``reader``: None in a process that nobody has started in this way."""
        self._reader = reader
        self.does = does

    @classmethod
    def none(cls) -> Self:
        """Return what a process without such a parent holds."""
        return cls(None, frozenset())

    def watch(self, gone: Callable[[], None]) -> None:
        """Call ``gone`` from a thread once the parent has gone, even if killed."""
        if self._reader is None:
            return
        threading.Thread(
            target=_wait, args=(self._reader, gone), name="jobs-lifeline", daemon=True
        ).start()


def _wait(reader: int, gone: Callable[[], None]) -> None:
    os.read(reader, 1)
    logger.info("the parent process has let go: stopping")
    gone()


def held() -> Held:
    """Return this process's end, and keep it from the processes that tasks start."""
    number, _, rest = os.environ.pop(VARIABLE, "").partition(":")
    inode, _, does = rest.partition(":")
    if not number or not _is_pipe(int(number), int(inode)):
        return Held.none()
    os.set_inheritable(int(number), False)
    return Held(int(number), frozenset(does.split(",")))


def _is_pipe(number: int, inode: int) -> bool:
    """Tell a pipe that came with the variable from one whose variable alone was inherited."""
    with suppress(OSError):
        found = os.fstat(number)
        return stat.S_ISFIFO(found.st_mode) and found.st_ino == inode
    return False


def in_words(returncode: int) -> str:
    """Say how a child ended."""
    if returncode >= 0:
        return f"ended with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:  # a real-time signal
        name = f"signal {-returncode}"
    return f"was ended by {name}"
