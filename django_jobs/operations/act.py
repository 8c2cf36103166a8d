"""An operator's act on jobs: in batches, with one record of who did it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from django_jobs.operations.enqueue import ring_on_commit
from django_jobs.sql import Row, SiteDatabase, array
from django_jobs.states import FINAL
from django_jobs.tasks.ids import LARGEST_ID
from django_jobs.tracebacks import storable

BATCH = 1000  # jobs per statement, which is a transaction of its own in autocommit
LONGEST_NAME = 200
LONGEST_REASON = 2000
NAMED = 10  # jobs that a scope lists one by one
NOT_FOUND = "not found"
Fetch: TypeAlias = Callable[[str, dict[str, Any]], list[Row]]
LOCKED = "locked"  # another transaction was changing the job at that moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts, and from where: ``admin``, ``cli`` or ``api``."""

    name: str
    via: str
    id: str | None = None


@dataclass(slots=True)
class Acted:
    """What became of the jobs of one act."""

    changed: list[int] = field(default_factory=list)
    queues: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    refused: dict[int, str] = field(default_factory=dict)
    activity: int | None = None
    told: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # by job: its backend, and more


def act(
    verb: str,
    ids: Iterable[int],
    *,
    actor: Actor,
    reason: str,
    database: str,
    fetch: Fetch | None = None,
) -> Iterator[Acted]:
    """Run ``sql/<verb>.sql`` over ``ids`` in order; yield what each batch brought.

    The first batch that changes a job writes the row of ``Activity``, later ones add to its
    count, each in the transaction of what it changes: whenever this stops, the record tells
    what has been done. An act that changes nothing leaves no record.
    ``fetch`` sends the statement where one is not enough.
    """
    fetch = fetch or SiteDatabase(database).fetch
    wanted = sorted(set(ids))
    possible = [pk for pk in wanted if 0 < pk <= LARGEST_ID]
    yield Acted(refused=dict.fromkeys(set(wanted) - set(possible), NOT_FOUND))
    params = recorded(verb, actor, scope=in_words(wanted), reason=reason)
    params |= {"final": sorted(FINAL), "activity": None}
    for start in range(0, len(possible), BATCH):
        params["ids"] = array(possible[start : start + BATCH])
        done = answers(fetch(verb, params))
        params["activity"] = done.activity or params["activity"]
        yield done


def totals(batches: Iterable[Acted], *, ring: str | None = None) -> tuple[int, dict[int, str]]:
    """Return how many jobs were changed, and why others were not.

    ``ring``: the alias of the database where sleepers are woken for them, after the commit.
    """
    count = 0
    refused: dict[int, str] = {}
    for done in batches:
        count += len(done.changed)
        refused |= done.refused
        if ring is not None:
            for backend, queues in done.queues.items():
                ring_on_commit(queues, backend=backend, database=ring)
    return count, refused


def recorded(verb: str, actor: Actor, *, scope: str, reason: str) -> dict[str, Any]:
    """Return what a row of Activity says, as parameters of the statement that writes it."""
    return {
        "verb": verb,
        "actor_id": actor.id,
        "actor_name": storable(actor.name, limit=LONGEST_NAME),
        "via": actor.via,
        "scope": scope,
        "reason": storable(reason, limit=LONGEST_REASON),
    }


def answers(rows: Iterable[Row]) -> Acted:
    """Read what such a statement answers."""
    done = Acted()
    for pk, activity, backend, queue, refused, *more in rows:
        done.activity = activity or done.activity
        if refused is None:
            done.changed.append(pk)
            done.queues[backend].add(queue)
            done.told[pk] = (backend, *more)
        else:
            done.refused[pk] = refused
    return done


def in_words(ids: list[int]) -> str:
    """Say which jobs an act was about."""
    if len(ids) == 1:
        return f"job {ids[0]}"
    if len(ids) <= NAMED:
        return f"jobs {', '.join(map(str, ids))}"
    return f"{len(ids):,} jobs from {ids[0]} to {ids[-1]}"
