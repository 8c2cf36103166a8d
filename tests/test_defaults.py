"""What a job is whose maker names its task alone."""

from __future__ import annotations

import pytest
from django.db import connection

from django_jobs.models import Job


@pytest.mark.django_db
def test_a_job_has_no_arguments_unless_it_is_given_some() -> None:
    Job.objects.create(task="a.b")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO django_jobs_job (task) VALUES ('a.b')")
        cursor.execute("SELECT args, kwargs, metadata, result FROM django_jobs_job")
        assert [("[]", "{}", None, None)] * 2 == cursor.fetchall()
    for job in Job.objects.all():
        assert [[], {}] == [job.args, job.kwargs]
