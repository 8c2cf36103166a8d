"""Tasks that run in processes of their own; importing this starts nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from django.dispatch import receiver

from django_jobs import CancelJob, JobContext, RetryJob, SnoozeJob, constant, task
from django_jobs.compat import task_finished, task_started

isolated: dict[str, Any] = {"isolation": "process"}
SECONDS = 3600.0


def say(path: str, *more: object) -> None:
    """Tell the test, at once and in one piece, which process this is."""
    words = " ".join(map(str, [os.getpid(), *more]))
    part = Path(f"{path}.part")
    part.write_text(words)
    part.rename(path)


@task(**isolated)
def tell(value: Any = None) -> list[Any]:
    return [os.getpid(), value]


@task(**isolated)
async def tell_later(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return os.getpid()


@task(**isolated, max_attempts=1)
def nap(path: str) -> None:
    child = subprocess.Popen(["/bin/sleep", "3600"])
    say(path, child.pid)
    time.sleep(SECONDS)


@task(**isolated, max_attempts=2, backoff=constant(0))
def nap_and_try_again(path: str) -> None:
    if not Path(path).exists():
        say(path)
        time.sleep(SECONDS)


@task(**isolated, max_attempts=1)
def listen(path: str) -> None:
    ours, _theirs = socket.socketpair()
    say(path)
    ours.recv(1)


@task(**isolated, max_attempts=1)
def count(path: str) -> None:
    say(path)
    sum(range(10**11))


@task(**isolated, max_attempts=1, memory_mb=150)
def fill(path: str) -> None:
    say(path)
    held = []
    while True:
        held.append(b"x" * 4_000_000)
        time.sleep(0.005)


@task(**isolated, max_attempts=1)
def leave(status: int) -> None:
    os._exit(status)


@task(**isolated, max_attempts=1)
def send(signum: int) -> None:
    os.kill(os.getpid(), signum)
    time.sleep(SECONDS)


@task(**isolated, max_attempts=1)
def leave_a_fork() -> None:
    """End while a process that was forked holds all that this one had open."""
    if os.fork() == 0:
        time.sleep(SECONDS)
    os._exit(4)


@task(**isolated, max_attempts=1)
def shut_everything() -> None:
    os.closerange(3, 256)
    sum(range(10**11))


@task(**isolated, max_attempts=1)
def babble(words: str, status: int | None = None) -> None:
    """Write to what is not this task's to write to."""
    for fd in range(3, 64):
        with suppress(OSError):
            os.write(fd, words.encode())
    if status is not None:
        os._exit(status)
    time.sleep(SECONDS)


@task(**isolated, max_attempts=1, takes_context=True)
def obey(context: JobContext, path: str) -> None:
    say(path)
    while True:
        time.sleep(0.01)


@task(**isolated, max_attempts=1)
async def obey_later(path: str) -> None:
    say(path)
    await asyncio.sleep(SECONDS)


@task(**isolated, max_attempts=1)
def refuse(path: str) -> None:
    say(path)
    while True:
        with suppress(BaseException):
            time.sleep(0.01)


@task(**isolated, takes_context=True)
def wait_until_lost(context: JobContext, path: str) -> str:
    say(path)
    while not context.lease_lost:
        time.sleep(0.01)
    Path(f"{path}.lost").touch()
    return "seen"


@task(**isolated, idempotent=False, max_attempts=3, backoff=constant(0))
def nap_once(path: str) -> None:
    say(path)
    time.sleep(SECONDS)


@task(**isolated, idempotent=False, max_attempts=3, backoff=constant(0))
def leave_once(status: int) -> None:
    os._exit(status)


@task(**isolated, max_attempts=2, backoff=constant(0))
def fail(text: str) -> None:
    raise ValueError(text)


@task(**isolated, max_attempts=5, backoff=constant(0))
def steer(how: str, path: str) -> str:
    if Path(path).exists():
        return "again"
    Path(path).touch()
    match how:
        case "retry":
            raise RetryJob
        case "snooze":
            raise SnoozeJob(until=timedelta(0))
        case "cancel":
            raise CancelJob("enough")
        case _:
            sys.exit(how)


@task(**isolated, max_attempts=3)
def answer_badly(large: bool) -> Any:
    return "x" * 3_000_000 if large else {1, 2}


@task(**isolated, atomic=True, max_attempts=1)
def write_group(name: str, fault: str = "") -> str:
    Group.objects.create(name=name)
    if fault:
        raise ValueError(fault)
    return name


@task(**isolated, atomic=True, max_attempts=2, timeout=0.5)
def hang_after_commit(name: str) -> None:
    Group.objects.create(name=name)
    transaction.on_commit(lambda: time.sleep(SECONDS))


@receiver([task_started, task_finished])
def note_signal(signal: object, task_result: Any, **_: object) -> None:
    """Write down in which process a signal is received."""
    if path := os.environ.get("ISOLATED_SIGNALS"):
        with Path(path).open("a") as file:
            file.write(f"{task_result.status} {os.getpid()}\n")


@task(**isolated, takes_context=True)
def report(context: JobContext, path: str) -> None:
    context.progress(3, 10, "three")
    wait = Path(path)
    while not wait.exists():
        time.sleep(0.01)


@task(**isolated)
def end_children(path: str) -> str:
    """SIGTERM is the worker's affair here, and as everywhere else in what this starts."""
    os.kill(os.getpid(), signal.SIGTERM)
    started = subprocess.Popen(["/bin/sleep", "3600"])
    started.terminate()
    reader, writer = os.pipe()
    forked = os.fork()
    if not forked:
        os.write(writer, b".")
        time.sleep(SECONDS)
    os.read(reader, 1)
    os.kill(forked, signal.SIGTERM)
    return f"{started.wait()} {os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])}"
