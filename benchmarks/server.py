"""A private PostgreSQL with default durability, and a fresh database for each case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any, Self, TypeAlias

import psycopg
from psycopg import sql

from benchmarks.processes import wait_for
from testproject.postgres import PrivateServer

Connection: TypeAlias = psycopg.Connection[Any]
OURSELVES = "benchmarks"
PREFIX = "%m|%a|%d|"  # when, which application, which database
# The extended protocol logs "execute NAME: …", the simple one "statement: …".
STATEMENT = re.compile(
    r"^[^|]*\|(?P<application>[^|]*)\|(?P<database>[^|]*)\|LOG: +"
    r"(?:statement|execute [^:]*): "
)


class Server:
    """One server of one measurement; ``counting`` turns autovacuum off, whose work counts."""

    def __init__(self, *, counting: bool = False) -> None:
        settings = {"log_line_prefix": PREFIX}
        if counting:
            settings["autovacuum"] = "off"
        self._server = PrivateServer(settings=settings)
        self._numbers = count(1)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @property
    def private(self) -> PrivateServer:
        """The server itself, to be stopped and started."""
        return self._server

    @property
    def log_path(self) -> Path:
        """Where it writes statements when a database asks for that."""
        return self._server.log_path

    def url(self, dbname: str) -> str:
        """The address of one of its databases."""
        return self._server.url(dbname)

    def connect(self, dbname: str = "postgres") -> Connection:
        """Open a connection of the harness, in autocommit."""
        info = self._server.conninfo(dbname)
        return psycopg.connect(**info, autocommit=True, application_name=OURSELVES)

    def create(self, *, template: str | None = None, name: str | None = None) -> str:
        """Make a database, empty or a copy; return its name."""
        name = name or f"bench_{next(self._numbers)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
            sql.Identifier(name), sql.Identifier(template or "template0")
        )
        with self.connect() as connection:
            if template:
                self.wait_until_left(template)
            connection.execute(statement)
        return name

    def drop(self, dbname: str) -> None:
        """Remove a database; the next case begins with an empty cache of dirty pages."""
        with self.connect() as connection:
            statement = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(dbname))
            connection.execute(statement)
            connection.execute("CHECKPOINT")

    def log_statements(self, dbname: str) -> None:
        """Let sessions that begin from now on write every statement to the log."""
        with self.connect() as connection:
            statement = sql.SQL("ALTER DATABASE {} SET log_statement = 'all'")
            connection.execute(statement.format(sql.Identifier(dbname)))

    def wait_until_left(self, dbname: str) -> None:
        """Wait until nobody is connected to a database, so that its counters are complete."""
        with self.connect() as connection:
            wait_for(
                lambda: not _sessions(connection, dbname), seconds=20, what=f"{dbname} to be left"
            )

    def commits(self, dbname: str) -> int:
        """Return how many transactions a database has committed; nobody may be connected."""
        self.wait_until_left(dbname)
        sleep(0.2)
        with self.connect() as connection:
            query = "SELECT xact_commit FROM pg_stat_database WHERE datname = %s"
            return int(ask(connection, query, dbname))

    def settings(self) -> dict[str, str]:
        """Return what a reader wants to know of this server."""
        names = (
            "server_version",
            "fsync",
            "synchronous_commit",
            "full_page_writes",
            "shared_buffers",
            "wal_sync_method",
        )
        with self.connect() as connection:
            return {name: ask(connection, f"SHOW {name}") for name in names}


def ask(connection: Connection, query: str, *params: object) -> Any:
    """Return the first value of the first row."""
    row = connection.execute(query.encode(), params or None).fetchone()
    return row[0] if row else None


def _sessions(connection: Connection, dbname: str) -> int:
    found: int = ask(
        connection, "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", dbname
    )
    return found


def statements(log_path: Path, *, dbname: str, start: int = 0) -> list[str]:
    """Return for each statement in the log that is not ours the application that sent it."""
    with log_path.open("rb") as log:
        log.seek(start)
        text = log.read().decode(errors="replace")
    found = (STATEMENT.match(line) for line in text.splitlines())
    return [
        match["application"]
        for match in found
        if match and match["database"] == dbname and match["application"] != OURSELVES
    ]


@contextmanager
def fresh(server: Server, template: str) -> Iterator[str]:
    """Have a copy of ``template`` for one case."""
    dbname = server.create(template=template)
    try:
        yield dbname
    finally:
        server.drop(dbname)
