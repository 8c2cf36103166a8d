"""What runs beside the demonstration: a worker, and the admin's server."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.handlers.wsgi import WSGIHandler
from django.core.management.base import CommandError
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

from testproject import postgres
from testproject.shop.paths import PROJECT, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
USUAL_PORT = 8000
WORKER = ("manage.py", "jobworker", "--max-in-flight", "6")
PATIENCE = (40, 5)  # seconds after each SIGTERM; the worker's own limit is shorter


@contextmanager
def worker(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a real worker; at the end ask it to drain and wait until it has."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *WORKER],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours; the worker hears of it from us
        )
        try:
            yield process
        except BaseException:
            drain(process)  # what went wrong is the news, not how the worker ended
            raise
        if status := drain(process):
            raise CommandError(f"The worker ended with status {status}; see {shown(log)}.")


def drain(process: subprocess.Popen[bytes]) -> int:
    """Send SIGTERM and wait; a second Ctrl-C sends the second, which stops it at once."""
    for seconds in PATIENCE:
        process.terminate()
        with suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
            return process.wait(seconds)
    process.kill()
    return process.wait()


def demand_alive(process: subprocess.Popen[bytes], log: Path) -> None:
    """Raise if the worker has ended, although nobody here told it to."""
    if (status := process.poll()) is not None:
        raise CommandError(f"The worker ended early, with status {status}; see {shown(log)}.")


@contextmanager
def admin_server(port: int | None) -> Iterator[str]:
    """Serve the admin from a thread; yield its address without a path."""
    server = bind(port)
    server.set_app(StaticFilesHandler(WSGIHandler()))
    threading.Thread(target=server.serve_forever, args=(0.1,), name="admin", daemon=True).start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def bind(port: int | None) -> ThreadedWSGIServer:
    """Take ``port``; without one the usual port, or else any that is free."""
    try:
        return ThreadedWSGIServer((HOST, USUAL_PORT if port is None else port), QuietHandler)
    except (OSError, OverflowError) as error:
        if port is not None:
            reason = str(getattr(error, "strerror", error)).rstrip(".")
            raise CommandError(f"Port {port} of {HOST} cannot be used: {reason}.") from None
        return ThreadedWSGIServer((HOST, 0), QuietHandler)


class QuietHandler(WSGIRequestHandler):
    """Does not write a line for each request into the line of progress."""

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Refuse to run beside another demonstration, whose files and jobs these are too."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                f"Another demonstration is running ({shown(lock)} is locked)."
            ) from None
        yield


@contextmanager
def interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    """Let ``signals`` do what Ctrl-C does, for as long as the block lasts."""
    former = {each: signal.getsignal(each) for each in signals}
    wanted = [each for each in signals if former[each] is not signal.SIG_IGN]
    for each in wanted:
        signal.signal(each, signal.default_int_handler)
    try:
        yield
    finally:
        for each in wanted:
            signal.signal(each, former[each])


def what_stays() -> str:
    """Say what is left running when the demonstration has ended, and what ends that."""
    if postgres.given_url():
        return "The PostgreSQL that DATABASE_URL names was left as it is."
    by_make = Path(sys.prefix) == PROJECT / ".venv"
    cure = "make db-stop" if by_make else "python -m testproject.postgres stop"
    return f"PostgreSQL stays up for the next command; `{cure}` ends it."


def asked_to_exit() -> bool:
    """Tell whether ``DEMO_EXIT`` asks for an end as soon as the work is done."""
    return os.environ.get("DEMO_EXIT", "") not in {"", "0"}
