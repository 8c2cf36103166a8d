"""One process of many that enqueue one key, commit or roll back, and end its job."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from django_jobs.exceptions import AlreadyEnqueued
from django_jobs.models import Job
from tests.sample_tasks import add

KEY = "raced"


def race(seed: int, *, count: int) -> None:
    """Enqueue the key ``count`` times, the last time for good; print what came of it."""
    dice, came = random.Random(seed), Counter[str]()
    for number in range(1, count + 1):
        is_last = number == count
        try:
            came[_once(dice, number, is_kept=is_last)] += 1
        except AlreadyEnqueued as error:
            came["taken" if error.job else "contested"] += 1
        if not is_last and dice.random() < 0.2:
            _live().update(state="cancelled", finished_at=Now())
    print(dict(sorted(came.items())))  # noqa: T201 - the test reads it


def _once(dice: random.Random, number: int, *, is_kept: bool) -> str:
    conflict: Any = dice.choice(["return", "raise", "replace"])
    task = add.using(unique=KEY, on_conflict=conflict)
    if dice.random() < 0.4:
        return _word(task.enqueue(number).created)
    with transaction.atomic():
        made = task.enqueue(number)
        found = _live().count()  # the transaction is usable
        assert found <= 1, found
        if not is_kept and dice.random() < 0.4:
            transaction.set_rollback(True)
            return "undone"
    return _word(made.created)


def _word(created: bool) -> str:
    return "made" if created else "found"


def _live() -> Any:
    return Job.objects.filter(unique_key=KEY, finished_at__isnull=True)
