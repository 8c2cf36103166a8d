"""``jobworker --metrics-port``: served beside the worker, or refused with a sentence."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from typing import Any

import pytest

from django_jobs.metrics import server
from django_jobs.metrics.server import serve
from django_jobs.ports import PortRefused, chosen
from tests import tasks
from tests.metrics.test_served import free_port, get
from tests.processes import JobWorkers, wait_for

HERE = "127.0.0.1"


def port_of(log: str) -> int:
    [found] = re.findall(r"INFO metrics on http://\S+:(\d+)/metrics", log)
    return int(found)


@pytest.mark.subprocess
@pytest.mark.django_db(transaction=True)
def test_a_worker_serves_what_it_does_on_the_port_that_its_log_names(jobworker: JobWorkers):
    worker = jobworker("--metrics-port", "0", "--metrics-host", HERE, "--max-in-flight", "4")
    port = port_of(worker.wait_for_log("/metrics"))
    tasks.ok.using(queue_name="mail").enqueue()
    done = 'django_jobs_total{outcome="succeeded",queue="mail"}'
    wait_for(lambda: get(port).value(done) == 1)
    page = get(port)
    assert 4 == page.value("django_jobs_worker_capacity")
    assert 0 == page.value("django_jobs_worker_in_flight")
    assert 1 == page.value('django_jobs_run_seconds_count{queue="mail"}')
    wait_for(lambda: get(port).value('django_jobs_queue_depth{queue="mail"}') == 0)
    worker.term()
    assert 0 == worker.wait()


@pytest.mark.subprocess
@pytest.mark.django_db(transaction=True)
def test_a_taken_port_is_refused_before_anything_is_claimed(jobworker: JobWorkers):
    with socket.create_server((HERE, 0)) as other:
        port = other.getsockname()[1]
        worker = jobworker("--metrics-port", str(port), "--metrics-host", HERE)
        assert 2 == worker.wait()
    [line] = worker.log().strip().splitlines()
    assert line.startswith(f"jobworker: --metrics-port {port} cannot be served on {HERE}: ")
    assert "in use" in line


@pytest.mark.subprocess
@pytest.mark.django_db(transaction=True)
def test_each_process_of_a_parent_takes_a_port_of_its_own(jobworker: JobWorkers):
    port = free_port()
    flags = ("--metrics-port", str(port), "--metrics-host", HERE)
    worker = jobworker(*flags, DJANGO_JOBS_PROCESS="2")
    assert port + 2 == port_of(worker.wait_for_log("/metrics"))
    assert 200 == get(port + 2).status


@pytest.mark.parametrize("given", ["", "x", "-1", "65536", "1e3", "9" * 100, "٣"])
def test_what_is_no_port_is_refused(given: str):
    with pytest.raises(PortRefused, match=r"--metrics-port is .* from 0 to 65535"):
        serve(given, host=HERE)


def test_a_port_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DJANGO_JOBS_PROCESS", "1")
    with pytest.raises(PortRefused, match="process 1 would take 65536"):
        serve("65535", host=HERE)


def test_any_free_port_is_any_for_each_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DJANGO_JOBS_PROCESS", "3")
    assert 0 == chosen("0", flag="--metrics-port")


def test_an_address_that_is_not_here_is_refused():
    with pytest.raises(PortRefused, match=r"cannot be served on 192\.0\.2\.1: "):
        serve("0", host="192.0.2.1")
    with pytest.raises(PortRefused, match=r"cannot be served on no\.such\.host\.invalid: "):
        serve("0", host="no.such.host.invalid")


def test_without_the_flag_nothing_is_served():
    assert serve(None, host=HERE) is None


def test_without_the_library_the_flag_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "is_available", lambda: False)
    with pytest.raises(PortRefused, match=r"pip install 'django-jobs\[metrics\]'"):
        serve("0", host=HERE)


@pytest.mark.subprocess
def test_without_the_library_the_site_starts_and_nothing_of_it_is_imported(tmp_path: Any):
    program = tmp_path / "without.py"
    program.write_text(
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest:"
        " None if name == 'prometheus_client' else find(name, *rest)\n"
        "import django\ndjango.setup()\n"
        "from django_jobs.worker import Worker\n"
        "from django.core.management import call_command\n"
        "assert not any('prometheus' in name for name in sys.modules), 'it was imported'\n"
        "try:\n    call_command('jobworker', metrics_port='0')\n"
        "except SystemExit as end:\n    print('status', end.code)\n"
        "try:\n    import django_jobs.metrics.urls\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    ran = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    needed = "metrics need prometheus-client. Run: pip install 'django-jobs[metrics]'"
    assert f"jobworker: --metrics-port: {needed}" in ran.stderr
    assert "status 2" in ran.stdout
    assert f"ImproperlyConfigured django_jobs.metrics.urls: {needed}" in ran.stdout
