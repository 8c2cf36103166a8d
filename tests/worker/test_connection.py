"""What a worker asks of the sessions that are its own."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection as django_connection

from django_jobs.worker.connection import PrivateDatabase

LOOK = {"after": "", "reconcile": False, "backend": "default", "digests": [], "later": []}


@pytest.mark.django_db(transaction=True)
def test_a_direct_session_prepares_its_statements_once():
    database = PrivateDatabase("default", purpose="test")
    for _ in range(3):
        database.fetch("look", LOOK)
    [(count, executions)] = database.connection().execute(
        "SELECT count(*), max(generic_plans + custom_plans) FROM pg_prepared_statements"
        " WHERE statement LIKE '%lapse_in%'"
    )
    assert (1, 3) == (count, executions)
    database.close()


@pytest.mark.django_db(transaction=True)
def test_a_session_that_broke_while_it_listened_is_replaced():
    database = PrivateDatabase("default", purpose="test")
    broken = database.connection()
    pid = broken.info.backend_pid
    with django_connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    with pytest.raises(psycopg.OperationalError):
        list(broken.notifies(timeout=5))
    assert pid != database.connection().info.backend_pid
    database.close()
