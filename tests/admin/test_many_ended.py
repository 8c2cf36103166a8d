"""However many jobs have ended, a page reads as few of them."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from django_jobs.admin import bounded
from django_jobs.models import Job
from tests.admin.pages import LISTS, page_of, page_of_queue, shown

pytestmark = pytest.mark.django_db

ROWS = 50_000
MOST = bounded.MOST + 2000  # a list counts so many, and offers the tasks of some more
FILL = """
INSERT INTO django_jobs_job (task, queue, state, attempt, finished_at)
SELECT 'shop.tasks.t' || n %% 7, (ARRAY['default', 'mail', 'old'])[n %% 3 + 1],
       (ARRAY['succeeded', 'dead', 'cancelled', 'expired'])[n %% 4 + 1], 1,
       now() - n * interval '1 second'
FROM generate_series(1, %s) n
"""
READ = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables
WHERE relname IN ('django_jobs_job', 'django_jobs_event')
"""


@pytest.fixture
def many(db: None) -> None:
    """Fill the table, in the transaction of the test."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, [ROWS])
        cursor.execute("ANALYZE django_jobs_job")


def read() -> int:
    """Return how many rows this transaction has read, of the tables that grow."""
    with connection.cursor() as cursor:
        cursor.execute(READ)
        return int(cursor.fetchone()[0])


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("address", [*LISTS, page_of_queue("mail")])
def test_a_page_reads_few_of_the_jobs_that_have_ended(admin_client: Client, address: str) -> None:
    before = read()
    shown(admin_client, address)
    assert MOST >= read() - before


@pytest.mark.usefixtures("many")
def test_the_page_of_a_job_reads_few_of_the_others(admin_client: Client) -> None:
    pk = Job.objects.filter(state="dead").latest("pk").pk
    before = read()
    shown(admin_client, page_of(pk))
    assert 100 >= read() - before
