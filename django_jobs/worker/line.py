"""The private line between a worker and the process of one run."""

from __future__ import annotations

import json
import select
import socket
from threading import Lock
from typing import Any, cast

Message = dict[str, Any]

CHUNK = 1 << 18


class Garbled(Exception):
    """What came is no message: the process at the other end is not to be trusted."""


class Line:
    """One end of it; a message is a line of JSON, so half a message is none."""

    def __init__(self, end: socket.socket, *, longest: int) -> None:
        """``longest``: the most characters of one message that comes in."""
        self.closed = False  # the other end is, and all that it said has been read
        self._end = end
        self._longest = longest
        self._rest = bytearray()
        self._lock = Lock()  # of the messages that go out

    def fileno(self) -> int:
        """Return what a poll can wait for."""
        return self._end.fileno()

    def send(self, **message: Any) -> bool:
        """Send one message; False: nobody takes it."""
        text = json.dumps(message).encode() + b"\n"
        try:
            with self._lock:
                self._end.sendall(text)
        except OSError:
            return False
        return True

    def is_readable(self, seconds: float = 0.0) -> bool:
        """Wait so long for something to read, the end of the line too; once closed False."""
        if self.closed:
            return False
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def read(self) -> list[Message]:
        """Return the messages that have come; it waits for the first byte."""
        try:
            came = self._end.recv(CHUNK)
        except OSError:  # reset: it died with something unread
            came = b""
        self.closed = not came
        self._rest += came
        whole: list[bytearray] = []
        if b"\n" in came:
            *whole, self._rest = self._rest.split(b"\n")
        if len(self._rest) > self._longest:
            raise Garbled("more than any message")
        return [_message(text) for text in whole]

    def close(self) -> None:
        """Close this end."""
        self._end.close()


def _message(text: bytes | bytearray) -> Message:
    try:
        message = json.loads(text)
    except ValueError as error:
        raise Garbled("no JSON") from error
    if not isinstance(message, dict):
        raise Garbled("no message")
    return cast("Message", message)
