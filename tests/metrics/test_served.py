"""Scrapes over HTTP: one statement however many come, and an answer without a database."""

from __future__ import annotations

import http.client
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import pytest

from testproject.postgres import PrivateServer
from tests.processes import ROOT, JobWorkers, Process, wait_for
from tests.worker.fleet import DATABASE, migrated

pytestmark = [pytest.mark.subprocess, pytest.mark.django_db(transaction=True)]

SCRAPES = 100
FRESH = 600.0  # seconds: on the busiest machine three rounds are within it
SITE = f"""
from tests.settings import *
from django_jobs.metrics import figures
ROOT_URLCONF = "tests.metrics.urls"
MIDDLEWARE = []
figures.FRESH_SECONDS = {FRESH}
figures.LATE_SECONDS = 1.0
"""
STATEMENT = "WITH RECURSIVE waiting AS"


class Page(NamedTuple):
    """An answer."""

    status: int
    text: str
    seconds: float

    def value(self, series: str) -> float | None:
        """The value of a series as it is written."""
        lines = [line.rpartition(" ") for line in self.text.splitlines()]
        return next((float(value) for name, _, value in lines if name == series), None)


def get(port: int, path: str = "/metrics") -> Page:
    return ask(connected(port), path=path)


def connected(port: int) -> http.client.HTTPConnection:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    line.connect()
    return line


def ask(
    line: http.client.HTTPConnection, barrier: Barrier | None = None, *, path: str = "/metrics"
) -> Page:
    if barrier is not None:
        barrier.wait(30)
    begun = time.monotonic()
    line.request("GET", path)
    answer = line.getresponse()
    text = answer.read().decode()
    line.close()
    return Page(answer.status, text, time.monotonic() - begun)


def at_once(port: int) -> list[Page]:
    """Scrape from many lines, all open before the first asks."""
    barrier = Barrier(SCRAPES)
    lines = [connected(port) for _ in range(SCRAPES)]  # one by one: its backlog is short
    with ThreadPoolExecutor(SCRAPES) as pool:
        return list(pool.map(lambda line: ask(line, barrier), lines))


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


def listens(port: int) -> bool:
    """Tell whether somebody takes lines there, without a scrape."""
    try:
        connected(port).close()
    except OSError:
        return False
    return True


def site(processes: JobWorkers, server: PrivateServer, folder: Path, port: int) -> Process:
    """Start a web process on a server's database."""
    (folder / "metrics_site.py").write_text(SITE)
    return processes.command(
        "runserver",
        "--noreload",
        "--skip-checks",
        f"127.0.0.1:{port}",
        DATABASE_URL=server.url(DATABASE),
        DJANGO_JOBS_TEST_DATABASE=DATABASE,
        DJANGO_SETTINGS_MODULE="metrics_site",
        PYTHONPATH=f"{folder}:{ROOT}",
    )


def sent(server: PrivateServer) -> int:
    """How often the server has been asked by a scrape, as its own log tells."""
    lines = server.log_path.read_text(errors="replace").splitlines()
    return sum(STATEMENT in line and line.startswith("django_jobs metrics|") for line in lines)


@pytest.mark.slow
def test_a_hundred_scrapes_are_one_statement_and_a_dead_server_stops_none(
    private_server: Any, tmp_path: Path
):
    server = migrated(
        private_server(settings={"log_statement": "all", "log_line_prefix": "%a|", "fsync": "off"})
    )
    port = free_port()
    with JobWorkers(tmp_path) as processes:
        process = site(processes, server, tmp_path, port)
        wait_for(lambda: listens(port), what=process.log())
        for _ in range(3):
            assert [200] * SCRAPES == [page.status for page in at_once(port)]
        assert 1 == sent(server)
        page = get(port)
        assert 1 == page.value("django_jobs_scrape_ok")
        assert 0 == page.value('django_jobs_queue_depth{queue="mail"}')
        server.stop("immediate")
        get(port, "/expire")
        for _ in range(3):
            page = get(port)
            assert (200, 0) == (page.status, page.value("django_jobs_scrape_ok"))
            assert 0 == page.value('django_jobs_queue_depth{queue="mail"}')
            assert page.seconds < 1
        server.start()
        get(port, "/expire")
        wait_for(lambda: get(port).value("django_jobs_scrape_ok") == 1)


def test_a_frozen_server_holds_up_no_scrape(private_server: Any, tmp_path: Path):
    server = migrated(private_server(settings={"fsync": "off"}))
    port = free_port()
    with JobWorkers(tmp_path) as processes:
        process = site(processes, server, tmp_path, port)
        wait_for(lambda: listens(port), what=process.log())
        wait_for(lambda: get(port).value("django_jobs_scrape_ok") == 1)
        server.freeze()
        try:
            get(port, "/expire")
            wait_for(lambda: get(port).value("django_jobs_scrape_ok") == 0)
            page = get(port)
            assert (200, 0) == (page.status, page.value('django_jobs_queue_depth{queue="mail"}'))
            assert page.seconds < 1
        finally:
            server.thaw()
