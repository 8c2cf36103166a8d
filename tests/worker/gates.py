"""What tasks of a test wait at, and where they say what they saw."""

from __future__ import annotations

from threading import Event, Lock
from typing import Any

begun = Event()
gate = Lock()  # a lock of C: who waits for it executes no Python
seen: list[Any] = []
