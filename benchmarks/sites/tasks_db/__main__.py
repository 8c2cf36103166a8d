"""fill N | enqueue COUNT SEED"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

import django
from django.db import transaction

from benchmarks.sites import clocked


def fill(count: int) -> None:
    """Write no-op jobs in one transaction, as the backend's enqueue would one by one."""
    from benchmarks.sites.tasks_db.jobs import noop

    models = import_module("django_tasks_db.models")
    row = {
        "args_kwargs": {"args": [], "kwargs": {}},
        "task_path": noop.module_path,
        "backend_name": "default",
        "run_after": models.get_date_max(),
    }
    made = [models.DBTaskResult(**row) for _ in range(count)]
    with transaction.atomic():
        models.DBTaskResult.objects.bulk_create(made, batch_size=1000)
    print(made[-1].pk)


def enqueue(count: int, seed: int) -> None:
    """Enqueue at random moments."""
    from benchmarks.sites.tasks_db.jobs import clock

    clocked.run(lambda: str(clock.enqueue().id), count=count, seed=seed)


if __name__ == "__main__":
    django.setup()
    verbs: dict[str, Callable[..., None]] = {"fill": fill, "enqueue": enqueue}
    verbs[sys.argv[1]](*map(int, sys.argv[2:]))
