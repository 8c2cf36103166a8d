"""Probes are answered whatever the worker does, and whoever else knocks."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from django_jobs.health import HealthServer
from django_jobs.health import round_trip as round_trips
from django_jobs.health import server as servers
from django_jobs.ports import PortRefused
from tests.health.knocking import HERE, Subject, connected, get, heard, rest_of, serving
from tests.processes import wait_for


@pytest.fixture
def subject() -> Subject:
    return Subject()


@pytest.fixture
def server(subject: Subject) -> Iterator[HealthServer]:
    with serving(subject) as server:
        yield server


class Calls:
    """Counts the calls of a coroutine function, which does as before."""

    def __init__(self, function: Any) -> None:
        self.count = 0
        self._function = function

    def __call__(self) -> Any:
        self.count += 1
        return self._function()


def threads() -> int:
    """How many threads answer probes."""
    return sum(each.name.startswith("jobs-health") for each in threading.enumerate())


# what is answered


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/livez?from=kubelet"])
def test_an_answer_says_which_worker_it_is(server: HealthServer, subject: Subject, path: str):
    answer = get(server.address, path)
    assert (200, "application/json") == (answer.status, answer.headers["content-type"])
    said = answer.said
    assert ("django_jobs", str(subject.id), "web-1") == (
        said["service"], said["worker"], said["name"]
    )  # fmt: skip
    assert ("running", True, None) == (said["state"], said["ok"], said["fault"])


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
@pytest.mark.parametrize("state", ["running", "draining"])
def test_a_worker_that_works_or_drains_is_live_and_ready(
    server: HealthServer, subject: Subject, state: str, path: str
):
    subject.state = state
    answer = get(server.address, path)
    assert (200, state) == (answer.status, answer.said["state"])


@pytest.mark.parametrize("state", ["starting", "stopped"])
def test_a_worker_without_a_row_is_live_but_not_ready(
    server: HealthServer, subject: Subject, state: str
):
    subject.state = state
    assert [200, 503] == [get(server.address, path).status for path in ("/livez", "/readyz")]


def test_a_loop_at_one_turn_for_too_long_is_not_live(server: HealthServer, subject: Subject):
    subject.silent = 30.0
    assert 200 == get(server.address).status
    subject.silent = 30.1
    answer = get(server.address)
    assert (503, False) == (answer.status, answer.said["ok"])
    assert "one turn for 30 s" in answer.said["fault"]


def test_head_is_answered_as_get_without_the_body(server: HealthServer):
    asked, peeked = get(server.address), get(server.address, method="HEAD")
    assert (200, b"") == (peeked.status, peeked.body)
    assert asked.headers == peeked.headers


@pytest.mark.parametrize("path", ["/", "/livezz", "/livez/", "/metrics", "*", "http://[/livez"])
def test_another_path_is_not_found(server: HealthServer, path: str):
    assert get(server.address, path).status in (404, 400)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"])
def test_another_method_is_not_allowed(server: HealthServer, method: str):
    answer = get(server.address, method=method)
    assert (405, "get, head") == (answer.status, answer.headers["allow"].lower())


def test_a_body_that_nobody_wanted_does_not_lose_the_answer(
    server: HealthServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(servers, "LINGER_SECONDS", 10.0)  # on a busy machine
    with connected(server.address) as line:
        head = "POST /livez HTTP/1.1\r\nContent-Length: 16000000\r\n\r\n"
        line.sendall(head.encode() + b"x" * 16_000_000)
        assert 405 == heard(rest_of(line)).status


def test_the_older_protocol_is_understood(server: HealthServer):
    with connected(server.address) as line:
        line.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert 200 == heard(rest_of(line)).status


def test_a_probe_is_logged_for_those_who_look_closely_only(
    server: HealthServer, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO, logger="django_jobs.worker"):
        get(server.address)
    assert [] == caplog.records
    with caplog.at_level(logging.DEBUG, logger="django_jobs.worker"):
        get(server.address)
    assert ["probe: 'GET /livez': 200"] == [each.getMessage() for each in caplog.records]


# the database


def test_a_database_that_does_not_answer_makes_it_not_ready_and_leaves_it_live():
    def refuse() -> None:
        raise OSError("connection refused\nmore")

    with serving(send=refuse) as server:
        assert 200 == get(server.address).status
        answer = get(server.address, "/readyz")
    assert (503, "connection refused") == (answer.status, answer.said["fault"])


def test_a_database_that_hangs_never_hangs_a_probe():
    end, hung_up = threading.Event(), []
    with serving(send=lambda: end.wait(30), hang_up=lambda: hung_up.append(1)) as server:
        begun = time.monotonic()
        answer = get(server.address, "/readyz")
        took = time.monotonic() - begun
        assert (503, True) == (answer.status, took < round_trips.SECONDS + 1)
        assert [1] == hung_up  # so that what hangs ends
        begun = time.monotonic()
        assert 503 == get(server.address, "/readyz").status  # the same trip: no more waiting
        assert time.monotonic() - begun < 1
        assert 200 == get(server.address).status
        end.set()
        wait_for(lambda: 200 == get(server.address, "/readyz").status)


def test_probes_at_the_same_time_share_one_round_trip():
    sent, end = [], threading.Event()

    def send() -> None:
        sent.append(1)
        end.wait(10)

    with serving(send=send) as server, ThreadPoolExecutor(20) as pool:
        ready = Calls(server._probes.ready)
        server._probes.ready = ready  # type: ignore[method-assign]
        asked = [pool.submit(get, server.address, "/readyz") for _ in range(20)]
        wait_for(lambda: ready.count == 20)
        assert threads() <= 2
        end.set()
        assert {200} == {each.result().status for each in asked}
    assert [1] == sent


def test_an_answer_of_the_database_is_not_kept_for_the_next_probe():
    sent: list[int] = []
    with serving(send=lambda: sent.append(1)) as server:
        for _ in range(3):
            get(server.address, "/readyz")
    assert 3 == len(sent)


# bad clients


def test_a_client_that_says_nothing_is_sent_away(
    server: HealthServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(servers, "REQUEST_SECONDS", 0.2)
    with connected(server.address) as line:
        assert 408 == heard(rest_of(line)).status
    wait_for(lambda: not server._open)


def test_a_client_that_drips_has_no_more_time_than_others(
    server: HealthServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(servers, "REQUEST_SECONDS", 0.5)
    with connected(server.address, seconds=0.1) as line:
        begun = time.monotonic()
        while True:
            try:
                line.sendall(b"G")
                if line.recv(100):
                    break
            except TimeoutError:
                assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /livez\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET /livez HTTP/2.0\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nX: " + b"x" * 100_000, 431),
    ],
    ids=["empty", "short", "tls", "newer", "huge"],
)
def test_nonsense_is_refused(server: HealthServer, sent: bytes, status: int):
    with connected(server.address) as line:
        line.sendall(sent)
        assert status == heard(rest_of(line)).status
    assert 200 == get(server.address).status


def test_a_client_that_goes_away_leaves_nothing_behind(
    server: HealthServer, caplog: pytest.LogCaptureFixture
):
    for sent in (b"", b"GET /li", b"GET /livez HTTP/1.1\r\n\r\n"):
        connected(server.address).close()
        with connected(server.address) as line:
            line.sendall(sent)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
    wait_for(lambda: not server._open)
    assert 200 == get(server.address).status
    assert [] == [each for each in caplog.records if each.levelno > logging.INFO]


def test_however_many_lines_are_open_a_probe_is_heard(
    server: HealthServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(servers, "REQUEST_SECONDS", 60.0)  # they would stay
    before, most = threading.active_count(), servers.MOST_CONNECTIONS
    with ExitStack() as stack:
        lines = [stack.enter_context(connected(server.address)) for _ in range(3 * most)]
        begun = time.monotonic()
        assert 200 == get(server.address).status
        assert time.monotonic() - begun < 1
        assert len(server._open) <= most
        assert {b""} == {line.recv(1) for line in lines[: 2 * most]}  # the oldest made room
        assert threading.active_count() == before


def test_a_reader_that_takes_nothing_is_given_up(
    server: HealthServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(servers, "LINGER_SECONDS", 0.1)
    with connected(server.address) as line:
        line.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
        assert line.recv(10)  # and goes on holding its end open
        wait_for(lambda: not server._open, seconds=5)


# the port


def test_a_taken_port_is_an_error_that_says_so(server: HealthServer):
    port = server.address.rpartition(":")[2]
    with pytest.raises(PortRefused, match=rf"--health-port {port} cannot be served on 127\.0\.0"):
        serving(port=port).__enter__()


@pytest.mark.parametrize("port", ["", "x", "-1", "65536", "8080.0", "123456", "\uff18"])
def test_a_port_that_is_none_is_refused(port: str):
    with pytest.raises(PortRefused, match="--health-port is"):
        serving(port=port).__enter__()


def test_an_address_that_is_not_of_this_machine_is_refused():
    with pytest.raises(PortRefused, match="--health-host"):
        serving(host="203.0.113.7").__enter__()


def test_the_kth_process_takes_the_port_plus_k(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server((HERE, 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("DJANGO_JOBS_PROCESS", "3")
    with serving(port=str(port - 3)) as server:
        assert f"{HERE}:{port}" == server.address
    with pytest.raises(PortRefused, match="process 3 would take 65536"):
        serving(port="65533").__enter__()


def test_0_is_any_free_port_in_every_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DJANGO_JOBS_PROCESS", "3")
    with serving() as one, serving() as other:
        assert one.address != other.address


def test_a_server_everywhere_is_known_by_an_address_that_others_reach():
    with serving(host="0.0.0.0") as server:
        assert not server.address.startswith("0.")
        assert 200 == get(server.address).status


def test_the_newer_internet_is_served_too():
    with serving(host="::1") as server:
        assert server.address.startswith("[::1]:")
        assert 200 == get(server.address).status


def test_a_server_that_has_stopped_answers_nobody():
    with serving() as server:
        pass
    with pytest.raises(ConnectionRefusedError):
        connected(server.address)
    assert 0 == threads()


def test_a_server_that_was_never_started_can_be_stopped():
    with serving() as server:
        other = HealthServer(server._probes, port="0", host=HERE)
    other.stop()
