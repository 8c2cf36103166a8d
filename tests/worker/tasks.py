"""Tasks whose course a test decides, and tasks that do what no task should."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connection, transaction
from django.dispatch import receiver

from django_jobs import constant, task
from django_jobs.compat import task_finished, task_started
from tests.tasks import ledger, note

PATIENCE = 60.0


@receiver(task_finished)
def announce(task_result: Any, **_: object) -> None:
    """Note each end that is announced, in worker processes that are told to."""
    if os.environ.get("NOTE_SIGNALS"):
        try:
            note(f"finished {task_result.id}")
        except psycopg.OperationalError:  # its line broke while nobody used it
            note(f"finished {task_result.id}")


@receiver([task_started, task_finished])
def refuse(task_result: Any, **_: object) -> None:
    """Raise, in worker processes that are told to."""
    if os.environ.get("BREAK_SIGNALS"):
        raise RuntimeError("a receiver of the site is broken")


@task(takes_context=True, max_attempts=20, backoff=constant(0.1))
def until(context: Any, key: str, path: str) -> str:
    """Run until a file is there; say which worker ran it, and whether its lease was lost."""
    note(key, context)
    told = False
    deadline = time.monotonic() + PATIENCE
    while not Path(path).exists() and time.monotonic() < deadline:
        if context.lease_lost and not told:
            told = True
            Path(f"{path}.lost.{os.environ.get('LABEL', '')}").touch()
        time.sleep(0.02)
    return os.environ.get("LABEL", "")


@task(takes_context=True, max_attempts=20, backoff=constant(0.1))
async def auntil(context: Any, key: str, path: str) -> str:
    """Do the same as a coroutine; a cancellation leaves a file behind."""
    await sync_to_async(note)(key, context)
    deadline = time.monotonic() + PATIENCE
    try:
        while not _is_there(path) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        _leave_note(f"{path}.cancelled.{os.environ.get('LABEL', '')}")
        raise
    return os.environ.get("LABEL", "")


def _leave_note(path: str) -> None:
    Path(path).touch()


def _is_there(path: str) -> bool:
    return Path(path).exists()


@task(takes_context=True, max_attempts=2)
async def sleep_in_a_thread(context: Any, key: str, seconds: float) -> None:
    """Sleep in a pool's thread, which Python would wait for at its exit."""
    await sync_to_async(_note_and_sleep)(key, context, seconds)


def _note_and_sleep(key: str, context: Any, seconds: float) -> None:
    note(key, context)
    time.sleep(seconds)


@task(takes_context=True, max_attempts=3, backoff=constant(0.1))
def hold_gil(context: Any, key: str, seconds: float) -> str:
    """Freeze the whole process in one C call, on the first attempt."""
    note(key, context)
    if context.attempt == 1:
        ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))  # PyDLL keeps the GIL
    return f"attempt {context.attempt}"


@task(takes_context=True, max_attempts=3, backoff=constant(0.1))
def die_after_the_work(context: Any, key: str) -> str:
    """Do the work, then lose the process before it is settled, on the first attempt."""
    note(key, context)
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"attempt {context.attempt}"


@task(takes_context=True, max_attempts=3, backoff=constant(0.1))
def poison(context: Any, key: str) -> None:
    """End the process that runs this, each time."""
    note(key, context)
    os.kill(os.getpid(), signal.SIGKILL)


@task(takes_context=True, max_attempts=3, backoff=constant(0.1))
def work(context: Any, key: str, seconds: float) -> None:
    """Take some time."""
    note(key, context)
    time.sleep(seconds)


@task(max_attempts=3)
def span(seconds: float) -> None:
    """Take some time; note when it began and ended by the database's clock."""
    insert = (
        "INSERT INTO ledger_mark (key, attempt, pid, at)"
        " VALUES ('span', 0, %s, clock_timestamp()) RETURNING id"
    )
    row = ledger().execute(insert, [os.getpid()]).fetchone()
    time.sleep(seconds)
    ended = "UPDATE ledger_mark SET ended_at = clock_timestamp() WHERE id = %s"
    ledger().execute(ended, [row and row[0]])


class Stubborn(Exception):
    """An exception that can be neither copied nor printed."""

    def __init__(self, *, held: Any) -> None:
        super().__init__("stubborn")
        self.held = held

    def __reduce__(self) -> Any:
        raise TypeError("no copies")

    def __str__(self) -> str:
        raise RuntimeError("no words")


def _throw(error: BaseException) -> Any:
    raise error


def _cycle() -> Any:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def _recurse(depth: int = 0) -> Any:
    return _recurse(depth + 1)


def _interrupt_itself() -> None:
    """Get an exception from outside at the next step of Python, as a time limit sends it."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(threading.get_ident()), ctypes.py_object(SystemExit)
    )
    for _ in range(1000):
        time.sleep(0.001)


NASTY: dict[str, Callable[[], Any]] = {
    "SystemExit": lambda: sys.exit(1),
    "KeyboardInterrupt": lambda: _throw(KeyboardInterrupt()),
    "GeneratorExit": lambda: _throw(GeneratorExit()),
    "CancelledError": lambda: _throw(asyncio.CancelledError()),
    "BaseException": lambda: _throw(type("Own", (BaseException,), {})("mine")),
    "BaseExceptionGroup": lambda: _throw(BaseExceptionGroup("g", [KeyboardInterrupt()])),
    "StopIteration": lambda: _throw(StopIteration(1)),
    "Stubborn": lambda: _throw(Stubborn(held=[socket.socket().close, lambda: None])),
    "group of 1,000": lambda: _throw(
        ExceptionGroup("g", [ValueError(str(n)) for n in range(1000)])
    ),
    "cycle": _cycle,
    "recursion": _recurse,
    "50 MB": lambda: _throw(ValueError("x" * 50_000_000)),
    "NUL": lambda: _throw(ValueError("a\x00b\ud800")),
    "async exception": _interrupt_itself,
}


@task(max_attempts=1)
def nasty(kind: str) -> None:
    """Raise what hardly any code expects."""
    NASTY[kind]()


@task(max_attempts=1)
async def anasty(kind: str) -> None:
    """Do the same as a coroutine."""
    NASTY[kind]()


@task(max_attempts=1)
def leave_transaction(kind: str) -> None:
    """Return with the thread's connection in a state that no next job should meet."""
    connection.ensure_connection()
    if kind == "autocommit off":
        connection.set_autocommit(False)
        ledger_row(kind)
    elif kind == "open transaction":
        connection.connection.autocommit = False
        ledger_row(kind)
    elif kind == "swallowed":
        _swallow()
    else:
        connection.close()


def _swallow() -> None:
    block = transaction.atomic()
    block.__enter__()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
    except DatabaseError:  # as careless code does
        return


def ledger_row(key: str) -> None:
    """Write a row over the thread's own Django connection."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_mark (key, attempt, pid, at) VALUES (%s, 0, 0, now())", [key]
        )


@task(max_attempts=1)
def write(key: str) -> None:
    """Write a row over the thread's own Django connection."""
    ledger_row(key)


@task(max_attempts=20, backoff=constant(0.2))
def fail(text: str = "no") -> None:
    """Fail always."""
    raise OSError(text)


def marks(key: str) -> int:
    """Tell how often ``key`` was noted."""
    row = ledger().execute("SELECT count(*) FROM ledger_mark WHERE key = %s", [key]).fetchone()
    return int(row[0]) if row else 0
