"""A process that belongs to one run, from its start to its certain end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

from django_jobs.worker.line import Line

GONE_SECONDS = 1.0  # what the kernel is given to bury it
SEND_SECONDS = 5.0  # it reads at once what is sent, unless it is frozen
MB = 1024 * 1024
BOOT = (
    "import json, sys; sys.path[:], sys.argv[:], fd, parent = json.loads(sys.argv[1]);"
    " from django_jobs.worker.child import main; main(fd, parent)"
)


class Spawned:
    """Started by exec, with a session of its own, so that all it starts can be killed."""

    def __init__(self, name: str, *, env: Mapping[str, str], longest: int) -> None:
        """``name`` is for whoever lists processes; ``longest``: of a message from it."""
        if not sys.executable:
            raise RuntimeError("sys.executable is empty: there is no Python to start")
        self._lock = Lock()  # of its end: who kills may have to wait
        self._bell = Lock()  # of the pipe: who wakes never has to
        ours, theirs = socket.socketpair()
        ours.settimeout(SEND_SECONDS)
        self.line = Line(ours, longest=longest)
        self._reader, self._writer = -1, -1
        try:
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
            self._popen = _started(name, theirs, env)
        except BaseException:
            self._close_ends()
            raise
        finally:
            theirs.close()
        self._poll = select.poll()
        self._poll.register(self.line.fileno(), select.POLLIN)
        self._poll.register(self._reader, select.POLLIN)

    @property
    def pid(self) -> int:
        """Its process id, and that of its group."""
        return self._popen.pid

    def wake(self) -> None:
        """End the wait, or the next one; from any thread, at any time."""
        with self._bell, suppress(BlockingIOError):
            if self._writer >= 0:
                os.write(self._writer, b".")

    def wait(self, seconds: float) -> None:
        """Wait for a word, a wake or the end of the line."""
        came = [fd for fd, _ in self._poll.poll(seconds * 1000)]
        if self._reader in came:
            os.read(self._reader, 4096)

    def has_ended(self) -> bool:
        """Return whether it has ended, without burying it: its id is not free yet."""
        with self._lock:
            if self._popen.returncode is not None:
                return True
            if not hasattr(os, "waitid"):
                return self._popen.poll() is not None
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            with suppress(ChildProcessError):  # somebody else has buried it
                return os.waitid(os.P_PID, self.pid, how) is not None
            return True

    def kill(self) -> bool:
        """Kill it and its group; True once it is gone. From any thread, as often as one likes."""
        with self._lock:
            if self._popen.returncode is None:  # else the id may be another's
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
                try:
                    self._popen.wait(GONE_SECONDS)
                except subprocess.TimeoutExpired:
                    return False
        return True

    def end_in_words(self) -> str:
        """Tell how it ended, once it is gone."""
        status = self._popen.returncode
        if status >= 0:
            return f"ended with exit status {status}"
        with suppress(ValueError):
            return f"was ended by signal {-status} ({signal.Signals(-status).name})"
        return f"was ended by signal {-status}"

    def resident_mb(self) -> float:
        """Return the memory that it holds now, without that of processes it has started."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except FileNotFoundError:  # no Linux, or it is gone
            return _resident_by_ps(self.pid)
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / MB

    def close(self) -> None:
        """Give back what the worker has of it, once it is gone."""
        with self._bell:
            self._close_ends()

    def _close_ends(self) -> None:
        self.line.close()
        for fd in (self._reader, self._writer):
            if fd >= 0:
                os.close(fd)
        self._reader = self._writer = -1


def _started(name: str, theirs: socket.socket, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    fd = theirs.fileno()
    order = json.dumps([sys.path, sys.argv, fd, os.getpid()])
    return subprocess.Popen(  # noqa: S603 - our own words, no shell
        [sys.executable, "-c", BOOT, order, name],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        pass_fds=[fd],
        start_new_session=True,
    )


def _resident_by_ps(pid: int) -> float:
    told = subprocess.run(  # noqa: S603 - as above
        ["ps", "-o", "rss=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True,
        check=False,
    )
    return int(told.stdout.strip() or 0) / 1024
