"""What a coroutine should have written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import SynchronousOnlyOperation


@contextmanager
def awaited(cure: str) -> Iterator[None]:
    """Name the call to await when the block uses the database in a coroutine."""
    try:
        yield
    except SynchronousOnlyOperation as error:
        raise SynchronousOnlyOperation(
            f"A coroutine cannot use Django's database connections itself: write {cure}."
        ) from error
