"""A connection for one scrape: never the request's, never in its transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.sql import Row, load
from django_jobs.sql.private import hang_up, own_wrapper

STATEMENT_SECONDS = 2.0  # that PostgreSQL gives the statement
TIME_LIMITS = {
    "connect_timeout": 2,  # libpq's least
    "tcp_user_timeout": 5_000,
    "application_name": "django_jobs metrics",
}
# Of the transaction alone: behind a pooler the session is somebody else's next. What is
# counted up to a bound is read in the order of its index, whatever the statistics say.
LIMITS = (
    "SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true),"
    " set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),"
    " set_config('enable_seqscan', 'off', true)"
)


class ScrapeConnection:
    """Opened for one statement and closed after it, so that no idle one is kept."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._wrapper: BaseDatabaseWrapper | None = None

    def fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Run ``sql/<name>.sql`` under a time limit and return its rows."""
        with self._opened() as connection, connection.transaction():
            connection.execute(LIMITS, [f"{STATEMENT_SECONDS * 1000:.0f}ms"])
            return psycopg.Cursor(connection).execute(load(name), params).fetchall()

    @contextmanager
    def _opened(self) -> Iterator[psycopg.Connection[Any]]:
        self._wrapper = wrapper = own_wrapper(self.alias, demands=TIME_LIMITS)
        try:
            wrapper.connect()
            yield wrapper.connection
        finally:
            self._wrapper = None
            if wrapper.connection is not None:
                wrapper.connection.close()

    def hang_up(self) -> None:
        """Break the line under whoever waits on it; callable from any thread."""
        hang_up(self._wrapper)
