"""Does the database answer? Asked once, however many want to know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import monotonic

from django_jobs.sql.private import brief

SECONDS = 2.0  # that anybody waits for it


class RoundTrip:
    """One statement at a time; who asks meanwhile gets the same answer."""

    def __init__(self, send: Callable[[], object], *, hang_up: Callable[[], object]) -> None:
        """``send`` raises when the database does not answer; ``hang_up`` breaks its line."""
        self._send = send
        self._hang_up = hang_up
        self._under_way: asyncio.Future[str | None] | None = None
        self._begun = 0.0

    async def fault(self) -> str | None:
        """Return what is wrong, None when the database answers; within two seconds."""
        if self._under_way is None or self._under_way.done():
            self._begin()
        assert self._under_way is not None
        left = max(self._begun + SECONDS - monotonic(), 0.0)
        try:
            return await asyncio.wait_for(asyncio.shield(self._under_way), left)
        except TimeoutError:
            self._hang_up()  # else its thread might wait for hours
            return f"the database has not answered for {SECONDS:.0f} s"

    def _begin(self) -> None:
        self._begun = monotonic()
        loop = asyncio.get_running_loop()
        self._under_way = loop.create_future()
        body = (loop, self._under_way)
        # not of an executor, whose threads are waited for when the process ends
        Thread(target=self._run, args=body, name="jobs-health-database", daemon=True).start()

    def _run(self, loop: asyncio.AbstractEventLoop, asked: asyncio.Future[str | None]) -> None:
        """Thread body: send the statement, hand over what came of it."""
        fault: str | None = None
        try:
            self._send()
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker is not ready
            fault = brief(error)
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(_answer, asked, fault)


def _answer(asked: asyncio.Future[str | None], fault: str | None) -> None:
    if not asked.done():
        asked.set_result(fault)
