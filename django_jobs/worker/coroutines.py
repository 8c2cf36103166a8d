"""The event loop on which coroutine tasks run."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from threading import Lock, Thread
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async

from django_jobs.worker.run import Run
from django_jobs.worker.site_connections import close_connections

logger = logging.getLogger("django_jobs.worker")

Call = Callable[[], Coroutine[Any, Any, Any]]
Conclude = Callable[[Any, BaseException | None], None]


class Coroutines:
    """One thread with one event loop, made at the first coroutine task."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.threads: list[Thread] = []

    def submit(self, run: Run, call: Call, conclude: Conclude) -> None:
        """Await ``call()`` on the event loop, then ``conclude`` it; from any thread."""
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._spawn, run, call, conclude)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = self._started()
            return self._loop

    def _started(self) -> asyncio.AbstractEventLoop:
        """Return a new event loop whose thread has been started, if there is one to be had."""
        loop = asyncio.new_event_loop()
        thread = Thread(target=self._work, args=[loop], name="jobs-coroutines", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            loop.close()
            raise
        self.threads.append(thread)
        return loop

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Thread body: the event loop, until the worker stops it and nobody else.

        SystemExit in a task that a task has made leaves run_forever(), and any task may
        stop the loop that it runs on; the others are still there, so it goes on.
        """
        asyncio.set_event_loop(loop)
        while not self._stopping:
            try:
                loop.run_forever()
            except BaseException:
                logger.exception("a coroutine left the event loop; it goes on")
        loop.close()

    def _spawn(self, run: Run, call: Call, conclude: Conclude) -> None:
        assert self._loop is not None
        work = _body(call, conclude)
        task = self._loop.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        run.cancel = _once(self._loop, task)

    def stop(self) -> None:
        """Cancel what still runs and end the loop."""
        with self._lock:
            loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        assert self._loop is not None
        for task in self._tasks:
            task.cancel()
        self._loop.call_later(0.05, self._leave)

    def _leave(self) -> None:
        assert self._loop is not None
        self._stopping = True
        self._loop.stop()


def _once(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> Callable[[], Any]:
    """Return what cancels from any thread; a task that tidies up is not hit again."""
    tasks = [task]  # changed by the event loop's thread alone

    def cancel() -> None:
        while tasks:
            tasks.pop().cancel()

    return partial(loop.call_soon_threadsafe, cancel)


async def _body(call: Call, conclude: Conclude) -> None:
    """Await the task in a thread-sensitive context of its own, as a request has one."""
    value: Any = None
    returned = False
    try:
        async with ThreadSensitiveContext() as own:
            try:
                value = await call()
                returned = True
            finally:
                if own in SyncToAsync.context_to_thread_executor:  # it used synchronous code
                    await sync_to_async(close_connections)()
    except BaseException as error:  # noqa: BLE001 - the task's failure, or a cancellation of ours
        late = returned and isinstance(error, asyncio.CancelledError)
        conclude(value, None if late else error)
    else:
        conclude(value, None)
