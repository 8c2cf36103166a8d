"""``jobs health``: a status for probes; is this worker well, is this queue served in time?"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Q

from django_jobs.health import NotWell, Who, ask
from django_jobs.management.frame import Call, Failed, Status
from django_jobs.management.output import duration
from django_jobs.management.spans import seconds_of
from django_jobs.models import Worker
from django_jobs.operations.explain import explain_queue

HELP = "Tell by the exit status whether a worker is well, or a queue served in time."
SECONDS = 4.0  # for all of it; a probe must not hang
WELL = ("live", "draining")
RANKS = (WELL, ("late",), ("gone", "stopped"))  # who is meant by a name that several have had
MOST = 20
PID = re.compile(r"[0-9]{1,9}")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what is asked about."""
    add = parser.add_argument
    add("--worker", metavar="NAME", help="its name, name:pid or id")
    add("--address", metavar="HOST:PORT", help="ask there, and read no row: needs no database")
    add("--ready", action="store_true", help="ask /readyz in place of /livez")
    add("--queue", metavar="NAME", help="judge a queue by its oldest ready job")
    add("--max-age", metavar="TIME", help="that this job may have, such as 5m")


def run(call: Call) -> Status:
    """Judge within some seconds, whatever hangs."""
    given = call.given
    if (given.queue is None) == (given.worker is None and given.address is None):
        msg = "Say --worker NAME or --address HOST:PORT, or --queue NAME with --max-age TIME."
        raise Failed(msg, Status.USAGE)
    if (given.queue is None) != (given.max_age is None):
        msg = "--queue and --max-age go together."
        raise Failed(msg, Status.USAGE)
    _within(call)
    return Status.DONE


def _within(call: Call) -> None:
    """Judge in a thread, for a database may never answer."""
    came: SimpleQueue[BaseException | None] = SimpleQueue()
    Thread(target=_run, args=(call, came), daemon=True).start()
    try:
        fault = came.get(timeout=SECONDS)
    except Empty:
        msg = f"The database {call.database!r} has not answered within {SECONDS:g} s."
        raise Failed(msg) from None
    if isinstance(fault, NotWell):
        raise Failed(str(fault)) from None
    if fault is not None:
        raise fault


def _run(call: Call, came: SimpleQueue[BaseException | None]) -> None:
    """Thread body: judge, hand over what came of it."""
    try:
        _judge_queue(call) if call.given.queue is not None else _judge_worker(call)
    except Exception as error:  # noqa: BLE001 - raised again where somebody waits for it
        came.put(error)
    else:
        came.put(None)
    finally:
        connections.close_all()  # of this thread


def _judge_worker(call: Call) -> None:
    given = call.given
    if given.address is not None:
        word = given.worker
        _ask(call, given.address, Who(None if word is None else _word(word)))
        return
    worker = _the_one(given.worker, call.database)
    health = worker.health_at(worker.now)
    if worker.health and health != "stopped":
        _ask(call, worker.health, Who(str(worker.pk), str(worker)))
        return
    ago = duration(worker.silence_at(worker.now))
    if health not in WELL:
        msg = f"{worker} is {health}, last heard of {ago} ago."
        raise NotWell(msg)
    call.out.record({"worker": worker.pk, "name": worker.name, "pid": worker.pid, "state": health})
    call.out.say(f"{worker} is {health}, by its row: heard of {ago} ago.")


def _ask(call: Call, address: str, who: Who) -> None:
    if not address.rpartition(":")[2].isdecimal():
        msg = f"--address is {address!r:.80}. Set it to HOST:PORT."
        raise Failed(msg, Status.USAGE)
    body = ask(address, "/readyz" if call.given.ready else "/livez", who=who)
    call.out.record(body)
    name = f"{body.get('name')}:{body.get('pid')}"
    call.out.say(f"{name} is {'ready' if call.given.ready else 'live'}: {body.get('state')}.")


def _word(text: str) -> str:
    """Return an id as a worker writes its own, any other word as it is."""
    try:
        return str(UUID(text))
    except ValueError:
        return text


def _the_one(text: str, database: str) -> Any:
    """Return the row of the worker that is meant; raise for none, or several."""
    rows = _rows(text, database)
    for rank in RANKS:
        found = [row for row in rows if row.health_at(row.now) in rank]
        if len(found) > 1 and rank is not RANKS[-1]:
            raise Failed(_which(text, found), Status.USAGE)
        if found:
            return found[0]  # of those that have ended, the last heard of
    msg = f"No worker {text!r:.80} is known. manage.py jobs workers lists those there are."
    raise NotWell(msg)


def _rows(word: str, database: str) -> list[Any]:
    """Return the workers of that id, name or name:pid, the last heard of first."""
    try:
        meant = Q(pk=UUID(word))
    except ValueError:
        name, _, pid = word.rpartition(":")
        meant = Q(name=word)
        if PID.fullmatch(pid):
            meant |= Q(name=name, pid=int(pid))
    rows: Any = Worker.objects.using(database).filter(meant).last_heard_of_first()
    return list(rows[:MOST])


def _which(text: str, rows: Sequence[Any]) -> str:
    listed = ", ".join(f"{row} ({row.pk})" for row in rows)
    return f"{text!r:.80} may be {len(rows)} workers; name one of them: {listed}."


def _judge_queue(call: Call) -> None:
    most = seconds_of(call.given.max_age, flag="--max-age")
    found = explain_queue(call.backend, call.given.queue, database=call.database)
    oldest = found.oldest_seconds or 0.0
    if oldest > most:
        msg = (
            f"The oldest ready job of queue {found.name!r} has waited {duration(oldest)}, longer"
            f" than {duration(most)}. {found.verdict.sentence}"
        )
        raise NotWell(msg)
    call.out.record({"queue": found.name, "ready": found.ready, "oldest_seconds": oldest})
    call.out.say(f"queue {found.name}: the oldest ready job has waited {duration(oldest)}.")
