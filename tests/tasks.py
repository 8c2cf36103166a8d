"""Small tasks that tests enqueue."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from django.contrib.auth.models import Group
from django.db import connection
from django.utils import timezone, translation

from django_jobs import CancelJob, RetryJob, SnoozeJob, constant, task
from django_jobs.worker.connection import private_wrapper

_ledger: dict[int, psycopg.Connection[Any]] = {}


def ledger() -> psycopg.Connection[Any]:
    """Return this process's connection to the ledger, in autocommit."""
    found = _ledger.get(os.getpid())
    if found is None or found.closed:
        wrapper = private_wrapper("default", purpose="ledger")
        wrapper.connect()
        found = _ledger[os.getpid()] = wrapper.connection
    return found


def note(key: str, context: Any = None) -> None:
    """Write one row for an execution: who ran, which attempt, in which process."""
    job = int(context.task_result.id) if context is not None else None
    attempt = context.attempt if context is not None else 0
    ledger().execute(
        "INSERT INTO ledger_mark (key, job, attempt, lease, pid) VALUES (%s, %s, %s,"
        " (SELECT id FROM django_jobs_lease WHERE job_id = %s), %s)",
        [key, job, attempt, job, os.getpid()],
    )


@task(max_attempts=3, backoff=constant(1, jitter=0))
def ok(value: Any = None) -> Any:
    return value


@task(takes_context=True, max_attempts=20, backoff=constant(0.2))
def mark(context: Any, key: str, seconds: float = 0.0) -> str:
    note(key, context)
    time.sleep(seconds)
    return key


@task(takes_context=True, max_attempts=3, backoff=constant(0.5), idempotent=False)
def mark_once(context: Any, key: str, seconds: float = 0.0) -> str:
    note(key, context)
    time.sleep(seconds)
    return key


@task
def nap(seconds: float) -> None:
    time.sleep(seconds)


@task
async def anap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@task(max_attempts=2, backoff=constant(0.1))
def boom(text: str = "boom") -> None:
    raise ValueError(text)


@task(takes_context=True, max_attempts=3, backoff=constant(0.1))
def flaky(context: Any, failures: int) -> int:
    if context.attempt <= failures:
        raise OSError("not yet")
    return int(context.attempt)


@task(takes_context=True, max_attempts=3, backoff=constant(0.2))
def die(context: Any, key: str = "die") -> None:
    note(key, context)
    os.kill(os.getpid(), signal.SIGKILL)


@task(keep_dead=False, max_attempts=1)
def boom_dropped() -> None:
    raise ValueError("nobody keeps this")


@task(max_attempts=2, backoff=constant(0.05))
def ask_retry(after: float | None = None) -> None:
    raise RetryJob(after=after)


@task(takes_context=True)
def snooze_once(context: Any, path: str) -> str:
    flag = Path(path)
    if not flag.exists():
        flag.touch()
        raise SnoozeJob(until=timedelta(seconds=0.2))
    return f"attempt {context.attempt}"


@task
def cancel_itself(reason: str) -> None:
    raise CancelJob(reason)


@task(max_attempts=1)
def leave(code: int = 1) -> None:
    sys.exit(code)


@task
def query(seconds: float = 0.0) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid(), pg_sleep(%s)", [seconds])
        return int(cursor.fetchone()[0])


@task(max_attempts=1)
def break_transaction() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


@task(max_attempts=1)
def write_and_fail(name: str) -> None:

    Group.objects.create(name=name)
    raise ValueError(name)


@task
def enqueue_on_commit_of(value: str) -> None:
    ok.enqueue_on_commit(value)


@task
def stamp(number: int, enqueued: float) -> float:
    return time.time()


@task
def find_group(pk: int) -> str:

    return Group.objects.get(pk=pk).name


ODD_VALUES: dict[str, Any] = {
    "nul": "a\x00b",
    "nul in a key": {"k\x00": [1, {"\x00": "\x00"}]},
    "lone surrogate": "\ud800",
    "big float": 1e16,
    "minus zero": -0.0,
    "key order": {"b": 1, "aa": 2, "a": 3},
    "huge int": 10**40,
    "html": "<script>alert(1)</script>",
}


class Unsayable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def _unsayable(kind: str) -> Any:
    if kind == "cycle":
        cycle: list[Any] = []
        cycle.append(cycle)
        return cycle
    return {
        "object": Unsayable(),
        "generator": (value for value in "ab"),
        "infinity": [1, {"x": float("inf")}],
        "set": {1},
        "too large": "x" * (2 * 1024 * 1024),
    }[kind]


@task(takes_context=True)
def return_unsayable(context: Any, kind: str) -> Any:
    return _unsayable(kind)


@task
def return_odd(name: str) -> Any:
    return ODD_VALUES[name]


class NeedsKeyword(Exception):
    def __init__(self, *, needed: object) -> None:
        super().__init__("needs a keyword")
        self.needed = needed

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _nasty(kind: str) -> BaseException:
    cyclic = ValueError("cyclic")
    cyclic.__cause__ = cyclic
    errors: dict[str, BaseException] = {
        "nul": ValueError("a\x00b"),
        "surrogate": ValueError("\ud800"),
        "bytes": ValueError(b"\xff\x00"),
        "undecodable": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        "keyword only": NeedsKeyword(needed=lambda: None),
        "mute": Mute(),
        "dynamic": type("Made<b>", (Exception,), {})("here"),
        "group": ExceptionGroup("many", [ValueError(str(n)) for n in range(1000)]),
        "base group": BaseExceptionGroup("bad", [KeyboardInterrupt()]),
        "cyclic": cyclic,
        "long": ValueError("x" * 50_000_000),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "generator exit": GeneratorExit(),
        "cancelled": asyncio.CancelledError(),
    }
    return errors[kind]


NASTY = (
    "nul", "surrogate", "bytes", "undecodable", "keyword only", "mute", "dynamic", "group",
    "base group", "cyclic", "long", "exit", "interrupt", "generator exit", "cancelled",
)  # fmt: skip


@task(max_attempts=1)
def raise_nasty(kind: str) -> None:
    raise _nasty(kind)


@task(max_attempts=1)
async def araise_nasty(kind: str) -> None:
    raise _nasty(kind)


@task(max_attempts=1)
def recurse() -> None:
    recurse.func()


@task(max_attempts=2, backoff=constant(0))
def keep_secret(*, password: str) -> None:
    raise ValueError("the login failed")


leaked: ContextVar[str] = ContextVar("leaked", default="nothing")


@task
def change_language(language: str, zone: str) -> None:
    translation.activate(language)
    timezone.activate(zone)
    leaked.set("something")


@task
def tell_language() -> list[str]:
    return [translation.get_language(), timezone.get_current_timezone_name(), leaked.get()]


@task
async def aquery() -> int:
    return await Group.objects.acount()
