"""Servers that one test has for itself."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from testproject.postgres import PrivateServer


class PrivateServers:
    """Private servers that end together."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, **options: Any) -> PrivateServer:
        """Start one more; ``options`` are PrivateServer's own."""
        return self._stack.enter_context(PrivateServer(**options))
