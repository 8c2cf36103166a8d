"""What a worker asks of the sessions that are its own."""

from __future__ import annotations

import pytest

from django_jobs.worker.connection import PrivateDatabase


@pytest.mark.django_db(transaction=True)
def test_a_direct_session_prepares_its_statements_once():
    database = PrivateDatabase("default", purpose="test")
    for _ in range(3):
        database.fetch("look", {})
    [(count, executions)] = database.connection().execute(
        "SELECT count(*), max(generic_plans + custom_plans) FROM pg_prepared_statements"
        " WHERE statement LIKE '%lapse_in%'"
    )
    assert (1, 3) == (count, executions)
    database.close()
