"""A TCP proxy before a PostgreSQL server, which can lose, hold or cut what passes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

READY = b"Z\x00\x00\x00\x05I"  # the server's last word on a statement that has committed
Deed = Callable[["Line", bytes], None]


class Proxy:
    """Listens on 127.0.0.1; what it does to the bytes can change at any moment."""

    def __init__(self, port: int) -> None:
        """``port``: where the server listens on 127.0.0.1."""
        self.upstream = ("127.0.0.1", port)
        self.dropping = False
        self.refusing = False  # close new lines at once
        self.lines: list[Line] = []
        self.held: list[tuple[Line, bytes]] = []
        self.marker: bytes | None = None  # a statement that is waited for
        self.deed: Deed = Line.mute
        self.caught = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def drop(self) -> None:
        """Lose every byte from now on; lines stay open and new ones are answered by nobody."""
        self.dropping = True

    def restore(self) -> None:
        """Pass bytes again; a line that lost some stays silent, as half of it is missing."""
        self.dropping = False

    def cut(self) -> None:
        """Close every line that is open now."""
        for line in self.lines:
            line.close()

    def lose_answer(self, marker: str) -> threading.Event:
        """Let the next statement with ``marker`` commit, then cut its line unanswered."""
        return self._watch(marker, Line.mute)

    def lose(self, marker: str) -> threading.Event:
        """Lose the next statement with ``marker`` on a line that stays open."""
        return self._watch(marker, Line.swallow)

    def hold_back(self, marker: str) -> threading.Event:
        """Keep the next statement with ``marker`` here and cut its client off."""
        return self._watch(marker, Line.keep)

    def deliver(self) -> None:
        """Send what was kept to the server and wait until it is done."""
        for line, message in self.held:
            line.server.sendall(message)
            if not line.answered.wait(10):
                raise TimeoutError("The statement that was held back is not answered.")
        self.held.clear()

    def _watch(self, marker: str, deed: Deed) -> threading.Event:
        self.caught = threading.Event()
        self.deed, self.marker = deed, marker.encode()
        return self.caught

    def _accept(self) -> None:
        with suppress(OSError):  # closed: the test is over
            while True:
                client, _ = self._listener.accept()
                if self.refusing:
                    client.close()
                    continue
                with suppress(ConnectionRefusedError):  # the server is away
                    self.lines.append(Line(self, client))


class Line:
    """One connection through the proxy; it understands what the client sends."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.deaf = False  # its client hears nothing more
        self.answered = threading.Event()
        self._statements: dict[bytes, bytes] = {}  # prepared: name and text
        self._started = False
        self._buffer = b""
        try:
            self.server = socket.create_connection(proxy.upstream)
        except OSError:
            client.close()
            raise
        for pump in (self._to_server, self._to_client):
            threading.Thread(target=self._pump, args=[pump], daemon=True).start()

    def mute(self, message: bytes) -> None:
        """Let the statement commit; its answer will not arrive."""
        self.deaf = True
        self.server.sendall(message)

    def swallow(self, _message: bytes) -> None:
        """Lose the statement; the client waits on an open line."""
        self.deaf = True
        self._buffer = b""
        self.proxy.caught.set()

    def keep(self, message: bytes) -> None:
        """Keep the statement; the client sees its line cut."""
        self.deaf = True
        self.proxy.held.append((self, message + self._buffer))
        self._buffer = b""
        self._shut(self.client)
        self.proxy.caught.set()

    def close(self) -> None:
        """Cut both ends."""
        self._shut(self.client)
        self._shut(self.server)

    def _shut(self, end: socket.socket) -> None:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()

    def _pump(self, pump: Callable[[], bool]) -> None:
        with suppress(OSError):
            while pump():
                pass
        if not self.deaf or self.answered.is_set():
            self.close()

    def _to_client(self) -> bool:
        data = self.server.recv(65536)
        if self.deaf and READY in data:
            self.answered.set()
            self.proxy.caught.set()
            return False
        if data and not self.deaf and not self.proxy.dropping:
            self.client.sendall(data)
        return bool(data)

    def _to_server(self) -> bool:
        data = self.client.recv(65536)
        if not self.proxy.dropping:
            self._buffer += data
            while message := self._next_message():
                self._pass(message)
        return bool(data)

    def _pass(self, message: bytes) -> None:
        if self._is_awaited(message):
            self.proxy.marker = None
            self.proxy.deed(self, message)
        else:
            self.server.sendall(message)

    def _next_message(self) -> bytes | None:
        """Take one whole message of the client from the buffer."""
        skip = 1 if self._started else 0  # the first message has no type
        if len(self._buffer) < skip + 4:
            return None
        (size,) = struct.unpack_from("!I", self._buffer, skip)
        if len(self._buffer) < skip + size:
            return None
        self._started = True
        message, self._buffer = self._buffer[: skip + size], self._buffer[skip + size :]
        return message

    def _is_awaited(self, message: bytes) -> bool:
        """Tell whether this message executes the statement that is waited for."""
        marker, kind, body = self.proxy.marker, message[:1], message[5:]
        text = b""
        if kind == b"P":  # prepare: not run yet
            name, _, text = body.partition(b"\0")
            self._statements[name] = text
            return False
        if kind == b"B":
            text = self._statements.get(body.split(b"\0", 2)[1], b"")
        elif kind == b"Q":
            text = body
        return marker is not None and marker in text
