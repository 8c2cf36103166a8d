"""Columns that Django does not have: JSON kept as text, and an array of text."""

from __future__ import annotations

import json
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class JSONText(models.TextField):  # type: ignore[type-arg]  # its value is any JSON value
    """JSON kept as the text that was written.

    ``jsonb`` turns 1e16 into an integer, reorders keys and refuses NUL; text keeps all.
    """

    def from_db_value(self, value: str | None, *_: object) -> Any:
        """Decode what the database holds."""
        return None if value is None else json.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        """Encode compactly; NaN and infinities are refused."""
        if value is None:
            return None
        return json.dumps(value, allow_nan=False, separators=(",", ":"))

    def value_to_string(self, obj: models.Model) -> str:
        """Serialise for fixtures."""
        return self.get_prep_value(self.value_from_object(obj)) or ""

    def to_python(self, value: Any) -> Any:
        """Decode what a fixture holds."""
        return json.loads(value) if isinstance(value, str) and value else value


class TextArray(models.Field):  # type: ignore[type-arg]  # its value is a list of str
    """A ``text[]`` column; Django's own needs django.contrib.postgres installed."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Return the column's type."""
        return "text[]"

    def value_to_string(self, obj: models.Model) -> str:
        """Serialise for fixtures."""
        return json.dumps(self.value_from_object(obj))

    def to_python(self, value: Any) -> list[str] | None:
        """Decode what a fixture holds."""
        decoded: list[str] | None = json.loads(value) if isinstance(value, str) else value
        return decoded
