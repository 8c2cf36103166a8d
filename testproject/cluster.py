"""One PostgreSQL cluster, driven through the initdb and pg_ctl of the wheel."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import psutil
import psycopg

from testproject import wheel
from testproject.wheel import ServerError

StopMode = Literal["smart", "fast", "immediate"]
ROLE = "postgres"
PATIENCE_SECONDS = 5  # for an answer
START_SECONDS = 60
ACCEPTING, REJECTING = 0, 1  # what pg_isready answers
INITDB = ("--username", ROLE, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
# Letters beyond ASCII compare and fold alike on every machine, whatever locales it has.
LOCALE = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")


class Cluster:
    """A data directory and the server that runs on it."""

    def __init__(
        self,
        data: Path,
        sockets: Path,
        *,
        port: int = 5432,
        listen: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.sockets = sockets
        self.port = port
        self.listen = listen
        self.settings = dict(settings or {})
        self.log_path = data / "server.log"

    def conninfo(self, dbname: str = "postgres") -> dict[str, Any]:
        """Where a client finds a database of this cluster, over the Unix socket."""
        return {
            "host": str(self.sockets),
            "port": str(self.port),
            "user": ROLE,
            "dbname": dbname,
        }

    def create(self) -> None:
        """Make the data directory, unless it is there; a half-made one is never left."""
        if self.data.exists():
            return
        unfinished = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        wheel.make_directory(unfinished)
        wheel.run("initdb", "-D", str(unfinished), *INITDB, *LOCALE)
        unfinished.rename(self.data)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._drop_stale_locks()
        self._pg_ctl("start", "--log", str(self.log_path), "--options", self._options())

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server, if it runs, and wait until it has gone."""
        if self.pid() is not None:
            self._pg_ctl("stop", "--mode", mode)

    def kill(self) -> None:
        """End every process of the server at once, as a crash of the host would."""
        if (pid := self.pid()) is not None:
            _kill(pid)

    def freeze(self) -> None:
        """Stop every process where it is: connections stay open and nothing answers."""
        _tell(self.processes()[:1], signal.SIGSTOP)  # who is stopped has no more children
        _tell(self.processes(), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let frozen processes go on."""
        _tell(self.processes(), signal.SIGCONT)

    def pid(self) -> int | None:
        """The postmaster's process id, when it is alive."""
        pid = _first_number(self.data / "postmaster.pid")
        return pid if pid is not None and _is_postgres(pid) else None

    def processes(self) -> Sequence[int]:
        """The postmaster, then its children."""
        pid = self.pid()
        return [] if pid is None else _family(pid)

    def answers(self) -> bool:
        """Tell whether a server answers here, its data and its programs still in place."""
        if self.pid() is None:
            return False
        try:
            connection = psycopg.connect(**self.conninfo(), connect_timeout=PATIENCE_SECONDS)
        except psycopg.Error:
            return self._is_up()  # it may only be full
        with connection:
            return _finds_its_programs(connection)

    def evict(self) -> None:
        """End a server that holds this socket or this directory but does not answer."""
        for path in self._locks():
            pid = _first_number(path)
            if pid is not None and _is_postgres(pid):
                _kill(pid)

    def _is_up(self) -> bool:
        """Ask as pg_isready does, and wait while the server starts or recovers."""
        where = ("-h", str(self.sockets), "-p", str(self.port), "-t", str(PATIENCE_SECONDS))
        deadline = time.monotonic() + START_SECONDS
        status = wheel.status("pg_isready", *where)
        while status == REJECTING and time.monotonic() < deadline:
            time.sleep(0.1)
            status = wheel.status("pg_isready", *where)
        return status == ACCEPTING

    def _drop_stale_locks(self) -> None:
        # PostgreSQL refuses to start while the number in one of them is any process of its
        # account, and after a reboot, or where nothing reaps the dead, it may well be.
        for path in self._locks():
            pid = _first_number(path)
            if pid is None or not _is_postgres(pid):
                path.unlink(missing_ok=True)

    def _locks(self) -> tuple[Path, Path]:
        return self.data / "postmaster.pid", self.sockets / f".s.PGSQL.{self.port}.lock"

    def _options(self) -> str:
        settings = {
            "unix_socket_directories": str(self.sockets),
            "listen_addresses": self.listen,
            "port": str(self.port),
            **self.settings,
        }
        return shlex.join([word for item in settings.items() for word in ("-c", "=".join(item))])

    def _pg_ctl(self, verb: str, *words: str) -> None:
        wheel.run(
            "pg_ctl", verb, "-D", str(self.data), "--wait", f"--timeout={START_SECONDS}", *words
        )


def _finds_its_programs(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("DO $$ BEGIN END $$")  # loads a library from the wheel
    except psycopg.Error:
        return False
    return True


def _first_number(path: Path) -> int | None:
    try:
        return abs(int(path.read_text().split()[0]))
    except (OSError, ValueError, IndexError):
        return None


def _is_postgres(pid: int) -> bool:
    """Tell whether a live process is PostgreSQL's; a number may have been used again."""
    try:
        process = psutil.Process(pid)
        return bool(process.name() == "postgres" and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _family(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children())]


def _tell(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a child may end at any moment
            os.kill(pid, number)


def _kill(pid: int) -> None:
    doomed = _family(pid)
    _tell(doomed, signal.SIGKILL)  # the postmaster first: it would start new ones
    _wait_until_gone(doomed)


def _wait_until_gone(pids: Sequence[int], *, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while any(_is_postgres(pid) for pid in pids):
        if time.monotonic() > deadline:
            raise ServerError(f"The PostgreSQL processes {list(pids)} did not end.")
        time.sleep(0.02)
