"""Tasks that take longer than they may."""

from __future__ import annotations

import logging
import socket
import time
from typing import Any

from django_jobs import constant, task
from tests.tasks import note

HOUR = 3600.0


@task(takes_context=True, max_attempts=3, backoff=constant(0))
def sleep_an_hour(context: Any, key: str) -> str:
    """Sleep in one call of C, on the first attempt."""
    note(key, context)
    if context.attempt == 1:
        time.sleep(HOUR)
    return f"attempt {context.attempt}"


@task(takes_context=True, max_attempts=3, backoff=constant(0))
def wait_for_a_byte(context: Any, key: str) -> str:
    """Wait for data that never comes, on the first attempt."""
    note(key, context)
    if context.attempt == 1:
        ours, _theirs = socket.socketpair()
        ours.recv(1)
    return f"attempt {context.attempt}"


@task(takes_context=True, max_attempts=3, backoff=constant(0))
def count_in_c(context: Any, key: str) -> str:
    """Keep the interpreter's lock for hours, on the first attempt."""
    note(key, context)
    if context.attempt == 1:
        sum(range(10**11))
    return f"attempt {context.attempt}"


@task(takes_context=True)
def keep_the_log(context: Any, key: str) -> None:
    """Hold the locks of all that writes the log."""
    for reference in list(vars(logging)["_handlerList"]):
        reference().acquire()
    note(key, context)
    time.sleep(HOUR)
