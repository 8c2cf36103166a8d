"""What happened to a job, in order: its events, and what its own row tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin.badges import known, label
from django_jobs.admin.moments import when
from django_jobs.admin.pretty import Pretty, decoded, shown, stored
from django_jobs.admin.progress import timeout
from django_jobs.models import Event, Job, Worker
from django_jobs.states import FINAL
from django_jobs.tasks.context import NUMBERS

TOGETHER = timedelta(milliseconds=1)
FIRST, LAST = 20, 80  # events that are shown of a long history
# Codes of reasons, in the kinds of events where the reason is ours and not a person's words.
CODED = frozenset({"failed", "dead", "dropped", "rescued", "handed_back", "expired"})
REASONS = {
    "retry": gettext_lazy("to be tried again"),
    "attempts": gettext_lazy("after the last attempt"),
    "gave_up": gettext_lazy("its task gives up on this error"),
    "bad_result": gettext_lazy("its result cannot be stored"),
    "unwritable": gettext_lazy("its outcome cannot be stored"),
    "worker_lost": gettext_lazy("its worker was lost"),
    "timed_out": gettext_lazy("it was over its timeout and cut off"),
    "process_died": gettext_lazy("its process had died"),
    "lost_claim": gettext_lazy("its worker had lost track of it"),
    "drain": gettext_lazy("its worker was stopping"),
    "late": gettext_lazy("it had not started in time"),
}
CANCELLED_FOR = {  # reasons of a cancel that neither a person nor a task asked for
    "limit": gettext_lazy("its limit was full"),
    "parent": gettext_lazy("a job that it waited for did not succeed"),
    "replaced": gettext_lazy("a newer job of the same key took its place"),
}
CANCELLED_INSTEAD = {**REASONS, "retry": gettext_lazy("its attempt failed")}
ENDS = frozenset({"dead", "dropped", "cancelled", "expired"})  # kinds that tell of an end


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the timeline."""

    at: datetime
    when: SafeString | str
    kind: str
    title: str
    life: int
    attempt: int = 0
    worker: SafeString | str = ""
    actor: str = ""
    activity: int | None = None
    reason: str = ""
    code: str = ""  # what is stored of a reason that is said in words
    error: str = ""
    error_class: str = ""
    traceback: Pretty | None = None
    open: bool = False


def events_of(pk: int, *, database: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the events of a job in order, and whether some are left out."""
    events = Event.objects.using(database).filter(job_id=pk)
    rows: Any = events.annotate(text=stored("data")).values(
        "id", "kind", "at", "attempt", "life", "worker", "actor", "activity_id", "text"
    )
    newest = list(rows.order_by("-id")[: FIRST + LAST + 1])
    if len(newest) <= FIRST + LAST:
        return newest[::-1], False
    return [*rows.order_by("id")[:FIRST], *newest[LAST - 1 :: -1]], True


def worker_names(
    events: Iterable[Mapping[str, Any]], extra: UUID | None, *, database: str
) -> dict[UUID, str]:
    """Return worker id → name of those that these events, and ``extra``, speak of."""
    ids = [extra, *(event["worker"] for event in events)]
    found = Worker.objects.using(database).filter(pk__in={pk for pk in ids if pk})
    return {worker.pk: str(worker) for worker in found.only("name", "pid")}


def entries(
    job: Job, events: Iterable[Mapping[str, Any]], names: Mapping[UUID, str], *, now: datetime
) -> list[Entry]:
    """Return the lines in order, the row's own among the events.

    ``names`` says how to name the workers that are still known.
    """
    told = [_told(event, names, now=now) for event in events]
    begun, *later = _begun(job, now=now)
    lines = sorted([*later, *told, *_ended(job, told, now=now)], key=lambda line: line.at)
    return [begun, *_latest_open(lines)]


def _latest_open(lines: list[Entry]) -> list[Entry]:
    """Let the latest traceback be open: it is what people come for."""
    for place in reversed(range(len(lines))):
        if lines[place].traceback is not None:
            lines[place] = replace(lines[place], open=True)
            break
    return lines


def _told(event: Mapping[str, Any], names: Mapping[UUID, str], *, now: datetime) -> Entry:
    kind, worker = event["kind"], event["worker"]
    data = decoded(event["text"])
    traceback = data.get("traceback")
    reason = _text(data.get("reason"))
    words = _in_words(event, reason, by=data.get("by"))
    return Entry(
        at=event["at"],
        when=when(event["at"], now=now),
        kind=kind if kind in Event.Kind.values else "unknown",
        title=_title(kind, data),
        life=event["life"],
        attempt=event["attempt"],
        worker=names.get(worker, str(worker)) if worker else "",
        actor=event["actor"] or "",
        activity=event["activity_id"],
        reason=reason if words is None else str(words),
        code="" if words is None else reason,
        error=_text(data.get("error")),
        error_class=_text(data.get("class")),
        traceback=shown(traceback) if isinstance(traceback, str) and traceback else None,
    )


def _in_words(event: Mapping[str, Any], reason: str, *, by: object) -> object | None:
    """Return what a code means; None: it is somebody's own words."""
    if event["kind"] in CODED:
        return REASONS.get(reason)
    if event["kind"] != "cancelled" or by or event["actor"]:
        return None
    return (CANCELLED_FOR if event["worker"] is None else CANCELLED_INSTEAD).get(reason)


def _title(kind: str, data: Mapping[str, Any]) -> str:
    if kind == Event.Kind.REQUEUED and "from" in data:
        return _("requeued, it was %s") % label(_text(data["from"]))
    seconds = data.get("timeout")
    if kind == Event.Kind.TIMED_OUT and isinstance(seconds, NUMBERS):
        return _("over its timeout of %s") % timeout(seconds)
    return str(Event.Kind(kind).label) if kind in Event.Kind.values else kind


def _text(value: object) -> str:
    return "" if value is None else shown(str(value)).text


def _begun(job: Job, *, now: datetime) -> Iterable[Entry]:
    yield _own(job.enqueued_at, "enqueued", _("enqueued"), life=1, now=now)
    last = job.last_attempted_at
    if last is None:
        return
    if job.started_at is None or started_once(job):
        yield _own(last, "started", _("started"), life=job.life, now=now)
        return
    yield _own(job.started_at, "started", _("first started"), life=job.life, now=now)
    line = _own(last, "started", _("last started"), life=job.life, now=now)
    yield replace(line, attempt=job.attempt)


def started_once(job: Job) -> bool:
    """Tell whether the attempt that started last is the first; they are written together."""
    if job.started_at is None or job.last_attempted_at is None:
        return True
    return job.last_attempted_at - job.started_at < TOGETHER


def _ended(job: Job, told: Iterable[Entry], *, now: datetime) -> Iterable[Entry]:
    """Yield the end that has no event of its own, such as a success."""
    if job.finished_at is None or job.state not in FINAL:
        return
    if not any(line.life == job.life and line.kind in ENDS for line in told):
        title = label(job.state)
        yield _own(job.finished_at, known(job.state), title, life=job.life, now=now)


def _own(at: datetime, kind: str, title: str, *, life: int, now: datetime) -> Entry:
    return Entry(at=at, when=when(at, now=now), kind=kind, title=title, life=life)
