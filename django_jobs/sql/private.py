"""Connections that are nobody else's: made, broken from another thread, and their errors told."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

NOTHING: Mapping[str, Any] = {}


def own_wrapper(
    alias: str, *, defaults: Mapping[str, Any] = NOTHING, demands: Mapping[str, Any] = NOTHING
) -> BaseDatabaseWrapper:
    """Return a new, unconnected Django wrapper whose settings are its own.

    It is in autocommit and in no pool. The site's options win over ``defaults``, and
    ``demands`` over them.
    """
    wrapper = connections.create_connection(alias)
    # shared with every other connection of the alias: copied before it is changed
    settings = deepcopy(wrapper.settings_dict)
    options = settings["OPTIONS"]
    for name in ("pool", "isolation_level"):
        options.pop(name, None)
    settings |= {"AUTOCOMMIT": True, "ATOMIC_REQUESTS": False}
    wrapper.settings_dict = {**settings, "OPTIONS": {**defaults, **options, **demands}}
    wrapper.inc_thread_sharing()
    return wrapper


def hang_up(wrapper: BaseDatabaseWrapper | None) -> bool:
    """Break the line under whoever waits on it; return whether there was one.

    Callable from any thread.
    """
    if wrapper is None or wrapper.connection is None:
        return False
    with suppress(OSError, psycopg.Error):  # it is closed already
        line = socket.socket(fileno=os.dup(wrapper.connection.fileno()))
        with line:
            line.shutdown(socket.SHUT_RDWR)
    return True


def brief(error: BaseException) -> str:
    """Return the first line of a database error, for a line of a log."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
