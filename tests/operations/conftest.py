"""What tests of operations share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operations.desk import Desk, desks


@pytest.fixture
def pair() -> Iterator[list[Desk]]:
    """Two workers, each with a connection of its own."""
    with desks("one", "two") as made:
        yield made
