"""Cancel jobs: at once where nobody runs them, else by asking who does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from django.db import transaction

from django_jobs.operations.act import Acted, Actor, act
from django_jobs.operations.announce import announce
from django_jobs.operations.free import free_on_commit


@dataclass(frozen=True, slots=True)
class Cancelled:
    """How many jobs are cancelled, how many runs are asked to end, and why others not.

    Those that had been asked before are among the asked. A refusal is the state of a job
    that has ended, ``not found`` or ``locked``.
    """

    count: int
    asked: int
    refused: dict[int, str]


def cancel(ids: Iterable[int], *, actor: Actor, reason: str = "", database: str) -> Cancelled:
    """Cancel live jobs; one that runs is asked to end, and it may be too late for that.

    Its worker learns of it at once where it listens, else at its next renewal. Whatever
    would give the job another attempt then ends it as cancelled: a retry, a snooze, a
    hand-back, a rescue. A run that succeeds or dies all the same has succeeded or died.
    Of what was cancelled at once ``task_finished`` is sent after the commit, and the jobs
    that waited for it are cancelled or freed then. Batches and transactions are those of
    ``requeue``.
    """
    count = asked = 0
    refused: dict[int, str] = {}
    for done in act("cancel", ids, actor=actor, reason=reason, database=database):
        ended = _ended(done)
        over = sum(map(len, ended.values()))
        count += over
        asked += len(done.changed) - over
        refused |= done.refused
        for backend, jobs in ended.items():
            send = partial(announce, jobs, backend=backend, database=database)
            transaction.on_commit(send, using=database, robust=True)
        parents = [pk for pk, (_, _, has_children, _) in done.told.items() if has_children]
        if parents:
            free_on_commit(parents, database=database)
    return Cancelled(count, asked, refused)


def _ended(done: Acted) -> dict[str, list[int]]:
    """Return backend → the jobs that are final now."""
    ended: dict[str, list[int]] = defaultdict(list)
    for pk, (backend, is_asked, _has_children, _rang) in done.told.items():
        if not is_asked:
            ended[backend].append(pk)
    return ended
