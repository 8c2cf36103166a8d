"""What every test of the metrics needs."""

from __future__ import annotations

import pytest

from django_jobs import watchers
from django_jobs.metrics import database
from django_jobs.metrics.database import DATABASE


@pytest.fixture(autouse=True)
def no_answer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no answer of an earlier test serve, and each complaint be heard."""
    DATABASE.forget()
    monkeypatch.setattr(watchers, "_failed", set())
    monkeypatch.setattr(database, "PATIENCE_SECONDS", 20.0)  # a busy machine is no dead server
