"""Answers probes over HTTP: one thread, whoever knocks and however slowly."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from django_jobs.health.port import address_of, opened
from django_jobs.health.probes import SERVICE, Answer, Probes
from django_jobs.ports import chosen

logger = logging.getLogger("django_jobs.worker")

MOST_CONNECTIONS = 32  # the oldest makes room for the newest, so a probe is always heard
LARGEST_HEAD = 8192
REQUEST_SECONDS = 2.0  # for all of a request, not for a byte of it
ANSWER_SECONDS = 3.0  # more than a round trip may take
LINGER_SECONDS = 0.5
JOIN_SECONDS = 2.0
TURNS = 3
SHOWN = 80  # characters of a request in a log line
END = b"\r\n\r\n"
METHODS = ("GET", "HEAD")
BROKEN = (ConnectionError, asyncio.IncompleteReadError, OSError)


class HealthServer:
    """Serves ``/livez`` and ``/readyz`` on a port that is open from the start."""

    def __init__(self, probes: Probes, *, port: str, host: str) -> None:
        """Open the port; raise PortRefused when that cannot be."""
        self._probes = probes
        self._listening = opened(chosen(port, flag="--health-port"), host=host)
        self.address = address_of(self._listening)
        self._open: dict[asyncio.StreamWriter, None] = {}  # in the order of their coming
        self._loop = asyncio.new_event_loop()
        self._asked_to_stop = asyncio.Event()
        self._thread = Thread(target=self._run, name="jobs-health", daemon=True)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        logger.info("health on http://%s/livez and /readyz", self.address)

    def stop(self) -> None:
        """Close the port and every connection."""
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._asked_to_stop.set)
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)
        else:
            self._loop.close()
        self._listening.close()

    def _run(self) -> None:
        """Thread body."""
        loop = self._loop
        try:
            server = loop.run_until_complete(
                asyncio.start_server(self._serve, sock=self._listening, limit=LARGEST_HEAD)
            )
            loop.run_until_complete(self._asked_to_stop.wait())
            server.close()
            loop.run_until_complete(_cancel_others())
        except Exception:  # a worker without probes is better than none, and is restarted
            logger.exception("probes are not answered any more")
        finally:
            loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            await self._converse(reader, writer)
        except (*BROKEN, TimeoutError):  # a client that went, or would not
            pass
        except Exception:  # a fault of ours costs one answer
            logger.exception("a probe failed")
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, answer = await self._heard(reader)
        writer.write(_written(answer, is_head=method == "HEAD"))
        async with asyncio.timeout(LINGER_SECONDS):
            await writer.drain()
            writer.write_eof()
            while await reader.read(LARGEST_HEAD):  # closed unread, it would lose the answer
                pass

    async def _heard(self, reader: asyncio.StreamReader) -> tuple[str, Answer]:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(END)
        except asyncio.LimitOverrunError:
            return "", _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        except TimeoutError:
            return "", _refusal(HTTPStatus.REQUEST_TIMEOUT)
        words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004 - GET / HTTP/1.1
            return "", _refusal(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await self._answer(method, target)
        logger.debug("probe: %r: %s", f"{method} {target}"[:SHOWN], answer.status)
        return method, answer

    async def _answer(self, method: str, target: str) -> Answer:
        paths: dict[str, Callable[[], Awaitable[Answer]]] = {
            "/livez": self._live,
            "/readyz": self._probes.ready,
        }
        try:
            asked = paths.get(urlsplit(target).path)
        except ValueError:
            return _refusal(HTTPStatus.BAD_REQUEST)
        if asked is None:
            return _refusal(HTTPStatus.NOT_FOUND)
        if method not in METHODS:
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        return await asked()

    async def _live(self) -> Answer:
        return self._probes.live()


def _refusal(status: HTTPStatus) -> Answer:
    return Answer(status, {"service": SERVICE, "fault": status.phrase})


def _written(answer: Answer, *, is_head: bool) -> bytes:
    status = HTTPStatus(answer.status)
    body = json.dumps(answer.body).encode() + b"\n"
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        head.append(f"Allow: {', '.join(METHODS)}")
    return "\r\n".join(head).encode() + END + (b"" if is_head else body)


async def _cancel_others() -> None:
    """End what is still being said; nobody waits for it."""
    mine = asyncio.current_task()
    others: list[asyncio.Task[Any]] = [each for each in asyncio.all_tasks() if each is not mine]
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for _ in range(TURNS):  # in which the loop closes what they have aborted
        await asyncio.sleep(0)
