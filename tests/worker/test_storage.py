"""What is updated all the time stays on its pages: fill factor and autovacuum.

On a server of its own: a transaction that is open anywhere would keep old versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from django_jobs.sql import array, load
from testproject.postgres import PrivateServer
from tests.processes import wait_for
from tests.worker.fleet import DATABASE, TABLES

ROWS, ROUNDS = 200, 100


@pytest.fixture
def session(fleet_server: PrivateServer) -> Iterator[psycopg.Connection[Any]]:
    """A session with empty tables, their room given back."""
    with psycopg.connect(**fleet_server.conninfo(DATABASE), autocommit=True) as connection:
        names = ", ".join(f"django_jobs_{name}" for name in TABLES.split(", "))
        connection.execute(f"TRUNCATE {names}")
        yield connection


def counted(session: psycopg.Connection[Any], table: str) -> tuple[int, int, int]:
    """Updates, those on the page of the old version, and bytes of the table."""
    row = session.execute(
        "SELECT n_tup_upd, n_tup_hot_upd, pg_table_size(relid) FROM pg_stat_user_tables"
        " WHERE relname = %s",
        [table],
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def share_on_one_page(
    session: psycopg.Connection[Any], table: str, before: tuple[int, int, int]
) -> float:
    """Wait until the server has counted all updates; return how many stayed on their page."""
    wait_for(lambda: counted(session, table)[0] - before[0] >= ROWS * ROUNDS, seconds=20)
    updates, hot, size = counted(session, table)
    assert size < 250_000
    return (hot - before[1]) / (updates - before[0])


def test_renewals_of_leases_stay_on_their_pages(session: psycopg.Connection[Any]):
    worker = uuid4()
    session.execute(
        "INSERT INTO django_jobs_lease (job_id, worker, expires_at)"
        " SELECT n, %s, now() FROM generate_series(1, %s) n",
        [worker, ROWS],
    )
    held = [row[0] for row in session.execute("SELECT id FROM django_jobs_lease")]
    before = counted(session, "django_jobs_lease")
    params = {"leases": array(held), "worker": worker, "lease": 30.0}
    for _ in range(ROUNDS):
        assert ROWS == len(session.execute(load("renew"), params).fetchall())
    assert share_on_one_page(session, "django_jobs_lease", before) > 0.95


def test_permits_of_limits_stay_on_their_pages(session: psycopg.Connection[Any]):
    session.execute(
        "INSERT INTO django_jobs_limit (key, size, in_use)"
        " SELECT 'customer:' || n, 5, 0 FROM generate_series(1, %s) n",
        [ROWS],
    )
    before = counted(session, "django_jobs_limit")
    for _ in range(ROUNDS):
        session.execute("UPDATE django_jobs_limit SET in_use = 1 - in_use, wanted = wanted + 1")
    assert share_on_one_page(session, "django_jobs_limit", before) > 0.95
