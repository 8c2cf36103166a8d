"""Insert jobs that follow each other, all or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction

from django_jobs.operations.enqueue import Enqueued, NewJob, enqueue_many


def enqueue_flow(
    new: Sequence[NewJob], after: Sequence[Sequence[int]], *, backend: str, database: str
) -> list[Enqueued]:
    """Insert jobs in one transaction; ``after`` has for each the places of its parents.

    A parent stands before its children. What depends on nothing that is not yet inserted
    goes in one batch.
    """
    made: dict[int, Enqueued] = {}
    with transaction.atomic(using=database):
        for places in _levels(after):
            jobs = [_tied(new[place], after[place], made) for place in places]
            rows = enqueue_many(jobs, backend=backend, database=database)
            made |= zip(places, rows, strict=True)
    return [made[place] for place in range(len(new))]


def _levels(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the places by how long the longest way to them is."""
    depths: list[int] = []
    levels: dict[int, list[int]] = defaultdict(list)
    for place, parents in enumerate(after):
        depths.append(1 + max((depths[parent] for parent in parents), default=-1))
        levels[depths[place]].append(place)
    return [levels[depth] for depth in sorted(levels)]


def _tied(job: NewJob, after: Sequence[int], made: dict[int, Enqueued]) -> NewJob:
    """Return the job with the ids of its parents, those that it names itself among them."""
    parents = (*job.parents, *(made[place].id for place in after))
    return replace(job, parents=tuple(dict.fromkeys(parents))) if after else job
