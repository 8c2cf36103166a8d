"""The pages that show the metrics: ours, django-prometheus's, and of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, RequestFactory, override_settings
from prometheus_client import REGISTRY, generate_latest

from django_jobs.metrics import register
from django_jobs.metrics.database import DATABASE
from tests.operations.desk import jobs

pytestmark = pytest.mark.django_db(transaction=True)

DEPTH = 'django_jobs_queue_depth{queue="mail"} 2.0'


@pytest.fixture
def _urls() -> Any:
    with override_settings(ROOT_URLCONF="tests.metrics.urls"):
        yield


@pytest.mark.usefixtures("_urls")
def test_our_page_shows_them(client: Client):
    jobs(2, queue="mail")
    answer = client.get("/metrics")
    assert 200 == answer.status_code
    assert answer["Content-Type"].startswith("text/plain; version=")
    assert DEPTH in answer.text.splitlines()
    assert "# TYPE django_jobs_total counter" in answer.text


@pytest.mark.usefixtures("_urls")
def test_our_page_answers_in_the_format_that_is_asked_for(client: Client):
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.usefixtures("_urls")
def test_our_page_takes_no_post(client: Client):
    assert 405 == client.post("/metrics").status_code


if find_spec("django_prometheus"):  # there is none beside Django 6.1

    def test_the_page_of_django_prometheus_shows_them(monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
        exports: Any = import_module("django_prometheus.exports")
        jobs(2, queue="mail")
        answer = exports.ExportToDjangoView(RequestFactory().get("/metrics"))
        assert DEPTH in answer.content.decode().splitlines()


def test_registering_again_changes_nothing():
    before = len(REGISTRY._collector_to_names)
    register()
    register()
    assert before == len(REGISTRY._collector_to_names)
    assert 1 == list(REGISTRY._collector_to_names).count(DATABASE)


PROCESS = """
import django, sys
django.setup()
from django_jobs.watchers import Ending, tell_end
for _ in range(int(sys.argv[1])):
    tell_end(Ending("mail", "succeeded", 0.2, 0.1))
"""
SITE = """
import django
django.setup()
from django.conf import settings
from django.test import RequestFactory
from django_jobs.metrics import database
from django_jobs.metrics.views import metrics
database.PATIENCE_SECONDS = 20.0
print(metrics(RequestFactory().get("/metrics")).content.decode())
"""


def test_our_page_sums_several_processes_and_adds_the_queues(tmp_path: Path):
    from django.db import connection

    jobs(2, queue="mail")
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DJANGO_JOBS_TEST_DATABASE": str(connection.settings_dict["NAME"]),
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path),
        "PYTHONPATH": ".",
    }

    def run(program: str, *words: str) -> str:
        words = (sys.executable, "-c", program, *words)
        ran = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert 0 == ran.returncode, ran.stderr
        return ran.stdout

    run(PROCESS, "3")
    run(PROCESS, "4")
    lines = run(SITE).splitlines()
    assert 'django_jobs_total{outcome="succeeded",queue="mail"} 7.0' in lines
    assert 'django_jobs_run_seconds_count{queue="mail"} 7.0' in lines
    assert DEPTH in lines
    assert "django_jobs_scrape_ok 1.0" in lines


def test_the_default_registry_can_be_written_out_whole():
    assert b"django_jobs_worker_info" in generate_latest(REGISTRY)
