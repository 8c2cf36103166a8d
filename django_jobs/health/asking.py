"""Ask the port of a worker how it is, and believe only the worker that was meant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from django_jobs.health.probes import OK, SERVICE, UNAVAILABLE

SECONDS = 2.5  # for all of it: more than the other side waits for its database
LARGEST = 65_536
SHOWN = 80


class NotWell(Exception):
    """The worker is not well, or is not there; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Who:
    """The worker that is meant, by one of the words for it; no word: any."""

    word: str | None = None  # its id, its name or name:pid
    label: str | None = None  # what people call it

    def is_meant(self, body: dict[str, Any]) -> bool:
        """Tell whether an answer comes from it."""
        name = body.get("name")
        words = (body.get("worker"), name, f"{name}:{body.get('pid')}")
        return self.word is None or self.word in words

    def __str__(self) -> str:
        """Name it as an operator knows it."""
        return self.label or self.word or "the worker"


def ask(address: str, path: str, *, who: Who) -> dict[str, Any]:
    """Return what ``who`` answers at ``address``; raise NotWell for anything else.

    A 200 proves nothing: the answer must come from a worker, and from the one meant.
    """
    status, text = _asked(address, path)
    if status not in (OK, UNAVAILABLE):
        msg = f"{address} answers {path} with {status}: no worker does."
        raise NotWell(msg)
    body = _body(text)
    if body is None or body.get("service") != SERVICE or "worker" not in body:
        msg = f"{address} answers, and is no worker of django_jobs."
        raise NotWell(msg)
    if not who.is_meant(body):
        other = f"{body.get('name')}:{body.get('pid')} ({body.get('worker')})"
        msg = f"{address} is another worker, {other[: 2 * SHOWN]}, and not {who}."
        raise NotWell(msg)
    if status != OK or body.get("ok") is not True:
        msg = f"{who} is not well: {str(body.get('fault'))[: 2 * SHOWN]}."
        raise NotWell(msg)
    return body


def _body(text: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _asked(address: str, path: str) -> tuple[int, bytes]:
    """Ask in a thread: a server that drips bytes, or a name server, has no time limit."""
    came: SimpleQueue[tuple[int, bytes] | Exception] = SimpleQueue()
    Thread(target=_run, args=(address, path, came), daemon=True).start()
    try:
        answer = came.get(timeout=SECONDS)
    except Empty:
        msg = f"{address} has not answered within {SECONDS:g} s."
        raise NotWell(msg) from None
    if isinstance(answer, Exception):
        why = getattr(answer, "strerror", None) or str(answer) or type(answer).__name__
        msg = f"Nothing answers at {address}: {why[:SHOWN]}."
        raise NotWell(msg) from None
    return answer


def _run(address: str, path: str, came: SimpleQueue[Any]) -> None:
    """Thread body: fetch it, hand over what came of it."""
    try:
        host, _, port = address.rpartition(":")
        connection = HTTPConnection(host.strip("[]"), int(port), timeout=SECONDS)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            came.put((response.status, response.read(LARGEST)))
        finally:
            connection.close()
    except TimeoutError:
        return  # who asked knows
    except (OSError, HTTPException, ValueError) as error:
        came.put(error)
