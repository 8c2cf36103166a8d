"""Who asks a worker believes that worker alone."""

from __future__ import annotations

import json
import socket
import time
from uuid import UUID

import pytest

from django_jobs.health import NotWell, Who, ask, asking
from tests.health.knocking import HERE, Subject, alien, saying, serving

ME = UUID("00000000-0000-4000-8000-000000000007")
WHO = Who(str(ME), "web-1")


def body(**fields: object) -> str:
    known = {"service": "django_jobs", "worker": str(ME), "name": "web-1", "ok": True}
    return json.dumps({**known, **fields})


def fault(address: str, who: Who = WHO, path: str = "/livez") -> str:
    with pytest.raises(NotWell) as caught:
        ask(address, path, who=who)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_the_worker_that_was_meant_is_believed(path: str):
    with serving(Subject(id=ME)) as server:
        assert str(ME) == ask(server.address, path, who=WHO)["worker"]


STRANGERS = [
    ("200 OK", '{"status":"ok"}'),
    ("200 OK", "[]"),
    ("200 OK", ""),
    ("200 OK", "null"),
    ("200 OK", "[" * 60_000),
    ("200 OK", "\x00"),
    ("200 OK", '{"service": "django_jobs"}'),
    ("200 OK", body(service="another")),
    ("503 Service Unavailable", "busy"),
]


@pytest.mark.parametrize(("status", "text"), STRANGERS, ids=map(str, range(len(STRANGERS))))
def test_a_stranger_is_no_worker(status: str, text: str):
    with alien(saying(status, text)) as address:
        assert f"{address} answers, and is no worker of django_jobs." == fault(address)


@pytest.mark.parametrize("status", ["404 Not Found", "401 Unauthorized", "302 Found", "500 No"])
def test_a_status_that_no_worker_gives_is_refused_whatever_is_said(status: str):
    with alien(saying(status, body())) as address:
        assert f"{address} answers /livez with {status[:3]}: no worker does." == fault(address)


@pytest.mark.parametrize(
    "who",
    [Who("5b4bd2f1-6c3a-4d53-9d0a-1a0c7f5e8e21"), Who("web-2"), Who("web-1:1"), Who("web")],
    ids=str,
)
def test_another_worker_is_not_the_one_that_was_meant(who: Who):
    with serving(Subject(id=ME)) as server:
        assert "is another worker" in fault(server.address, who)


def test_a_worker_that_says_it_is_not_well_is_quoted():
    with serving(Subject(id=ME, silent=99)) as server:
        assert "web-1 is not well: the claim loop has been at one turn for 99 s." == fault(
            server.address
        )


def test_a_200_that_says_it_is_not_well_is_not_well():
    with alien(saying("200 OK", body(ok=False))) as address:
        assert "is not well" in fault(address)


def test_a_refused_connection_is_told():
    with socket.create_server((HERE, 0)) as free:
        address = f"{HERE}:{free.getsockname()[1]}"
    assert f"Nothing answers at {address}: Connection refused." == fault(address)


@pytest.mark.parametrize("address", ["nowhere.invalid:80", "127.0.0.1:99999", "[::1:80"])
def test_an_address_that_leads_nowhere_is_told(address: str):
    assert fault(address)


def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "SECONDS", 0.3)
    with alien(bool) as address:
        assert f"{address} has not answered within 0.3 s." == fault(address)


def test_a_server_that_drips_is_given_up_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "SECONDS", 0.5)

    def drip(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
        while True:
            line.sendall(b" ")
            time.sleep(0.01)

    with alien(drip) as address:
        begun = time.monotonic()
        assert fault(address)
        assert time.monotonic() - begun < 3


def test_the_other_side_has_less_time_for_its_database_than_who_asks_it():
    from django_jobs.health import round_trip

    assert round_trip.SECONDS < asking.SECONDS
