"""The site's own connections: fresh before a job, clean and given back after it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import get_ident
from typing import Any

import psycopg
import pytest
from django.db import connection, connections, transaction

from django_jobs import task
from django_jobs.models import Job
from django_jobs.operations.claim import claim
from django_jobs.testing import running_worker
from django_jobs.worker import loop
from django_jobs.worker.connection import PrivateDatabase
from django_jobs.worker.site_connections import refresh_connections, tidy_connections
from tests.processes import wait_for
from tests.tasks import aquery, boom, ok
from tests.worker.embedded import row, wait_for_ends

pytestmark = pytest.mark.django_db(transaction=True)


@task
def count_queries() -> list[int]:
    """Say which thread this is, and how many queries its connection remembers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.execute("SELECT 2")
    return [get_ident(), len(connection.queries_log)]


def test_a_worker_of_a_site_in_debug_mode_remembers_no_queries(settings):
    settings.DEBUG = True
    with running_worker(drain_seconds=1, max_in_flight=1):
        jobs = [count_queries.enqueue() for _ in range(4)]
        assert ["succeeded"] * 4 == wait_for_ends(*jobs)
    seen = [row(job).result for job in jobs]
    assert 1 == len({thread for thread, _ in seen})
    assert [2] * 4 == [count for _, count in seen]


# with the site's own pool


class Pool:
    """Stands in for psycopg's: notes what it is given back."""

    def __init__(self) -> None:
        self.given_back: list[Any] = []

    def putconn(self, raw: Any) -> None:
        self.given_back.append(raw)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """Let this thread's connection have come from a pool."""
    connection.ensure_connection()
    raw, made = connection.connection, Pool()
    raw._pool = made
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", True)
    monkeypatch.setattr(type(connections["default"]), "pool", made)
    yield made
    monkeypatch.undo()
    raw.close()


def test_a_connection_of_a_pool_is_given_back_after_each_job(pool: Pool):
    raw = connection.connection
    tidy_connections("tests.tasks.ok")
    assert ([raw], None) == (pool.given_back, connection.connection)
    tidy_connections("tests.tasks.ok")
    assert [raw] == pool.given_back


def test_a_connection_of_a_pool_with_an_open_transaction_is_given_back_too(pool: Pool):
    raw = connection.connection
    transaction.atomic().__enter__()
    tidy_connections("tests.tasks.ok")
    assert ([raw], None, False) == (
        pool.given_back,
        connection.connection,
        connection.in_atomic_block,
    )


def test_a_connection_of_its_own_is_kept_for_the_next_job():
    connection.ensure_connection()
    raw = connection.connection
    tidy_connections("tests.tasks.ok")
    refresh_connections()
    assert raw is connection.connection


def test_a_connection_that_cannot_even_be_closed_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    connection.ensure_connection()
    raw = connection.connection
    transaction.atomic().__enter__()

    def refuse() -> None:
        raise RuntimeError("the driver's own error")

    monkeypatch.setattr(raw, "close", refuse)
    tidy_connections("tests.tasks.ok")
    monkeypatch.undo()
    raw.close()
    assert (None, False) == (connection.connection, connection.in_atomic_block)
    ok.enqueue()


# whatever the site asks of its connections

OPTIONS: dict[str, dict[str, Any]] = {
    "server_side_binding": {"server_side_binding": True},
    "repeatable read": {"isolation_level": psycopg.IsolationLevel.REPEATABLE_READ},
    "serializable, bound by the server": {
        "isolation_level": psycopg.IsolationLevel.SERIALIZABLE,
        "server_side_binding": True,
    },
}


@pytest.fixture
def site_options(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Take options for every connection that the site opens from now."""

    def take(**options: Any) -> None:
        for name, value in options.items():
            monkeypatch.setitem(connection.settings_dict["OPTIONS"], name, value)
        connection.close()

    yield take
    monkeypatch.undo()
    connections.close_all()


@task
def enqueue_more() -> None:
    """Enqueue in each way that there is."""
    ok.enqueue("one")
    ok.enqueue_many([ok.s(number) for number in range(3)])
    with transaction.atomic():
        ok.enqueue_on_commit("after the commit")


def work_through() -> None:
    """Run jobs of each kind, and see them end."""
    with running_worker(drain_seconds=1, max_in_flight=3):
        jobs = [enqueue_more.enqueue(), aquery.enqueue(), boom.enqueue(), ok.enqueue()]
        assert ["succeeded", "succeeded", "dead", "succeeded"] == wait_for_ends(*jobs)
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())


@pytest.mark.parametrize("name", OPTIONS)
def test_a_worker_works_with_any_options_of_the_sites_connection(site_options: Any, name: str):
    site_options(**OPTIONS[name])
    work_through()


@pytest.fixture
def serializable_role() -> Iterator[None]:
    """Let every session of this role on this database start at serializable."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    of_role = f"ALTER ROLE CURRENT_USER IN DATABASE {name}"
    with connection.cursor() as cursor:
        cursor.execute(f"{of_role} SET default_transaction_isolation = 'serializable'")
    connection.close()
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"{of_role} RESET default_transaction_isolation")
    connection.close()


def test_a_direct_session_claims_at_read_committed_whatever_its_role_says(
    serializable_role: None, monkeypatch: pytest.MonkeyPatch
):
    levels = set()

    def watched(*given: Any, database: PrivateDatabase, **more: Any) -> Any:
        [level] = database.connection().execute("SHOW transaction_isolation").fetchone() or ("",)
        levels.add(level)
        return claim(*given, database=database, **more)

    monkeypatch.setattr(loop, "claim", watched)
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert "serializable" == cursor.fetchone()[0]
    work_through()
    assert {"read committed"} == levels
