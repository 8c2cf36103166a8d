"""A worker to be judged, a server that judges it, and clients good and bad."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from django_jobs.health import HealthServer, Probes, RoundTrip

HERE = "127.0.0.1"


@dataclass
class Subject:
    """What a worker shows of itself."""

    id: UUID = field(default_factory=uuid4)
    name: str = "web-1"
    state: str = "running"
    silent: float = 0.0

    def silence(self) -> float:
        """For how long its loop has been at one turn."""
        return self.silent


class Heard(NamedTuple):
    """An answer as it came over the line."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        """Its body as JSON."""
        return json.loads(self.body)


@contextmanager
def serving(
    subject: Subject | None = None,
    *,
    send: Callable[[], object] = bool,
    hang_up: Callable[[], object] = bool,
    host: str = HERE,
    port: str = "0",
) -> Iterator[HealthServer]:
    """Answer probes about ``subject`` while the body runs."""
    database = RoundTrip(send, hang_up=hang_up)
    probes = Probes(subject or Subject(), silent_after=30.0, database=database)
    server = HealthServer(probes, port=port, host=host)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def connected(address: str, *, seconds: float = 10.0) -> socket.socket:
    """Open a line to ``address``."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)


def rest_of(line: socket.socket) -> bytes:
    """Read until the other side has closed."""
    text = b""
    while True:
        try:
            part = line.recv(65_536)
        except ConnectionError:
            return text
        if not part:
            return text
        text += part


def get(address: str, path: str = "/livez", *, method: str = "GET", more: str = "") -> Heard:
    """Ask as a probe does."""
    with connected(address) as line:
        line.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
        return heard(rest_of(line))


def heard(text: bytes) -> Heard:
    """Return an answer in parts."""
    head, _, body = text.partition(b"\r\n\r\n")
    first, *others = head.decode().split("\r\n")
    headers = dict(each.lower().split(": ", 1) for each in others)
    return Heard(int(first.split(" ")[1]), headers, body)


@contextmanager
def alien(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Serve something else: ``answer`` gets each line once it has asked; yield the address."""
    with socket.create_server((HERE, 0)) as listening:
        lines: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:  # closed: the test is over
                    return
                lines.append(line)
                with suppress(OSError):  # who asked has gone
                    line.recv(65_536)
                    answer(line)

        Thread(target=serve, daemon=True).start()
        yield f"{HERE}:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    for line in lines:
        line.close()


def saying(status: str, body: str) -> Callable[[socket.socket], None]:
    """Return an answer of a server that is no worker."""

    def answer(line: socket.socket) -> None:
        text = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        line.sendall(text.encode())
        line.close()

    return answer
