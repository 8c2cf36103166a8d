"""``jobs explain``: why is my job not running, and how does its queue fare?"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable

from django_jobs.management.frame import Call, Failed, Status
from django_jobs.management.output import Columns, Record
from django_jobs.models import Job
from django_jobs.operations.explain import (
    Check,
    HostLine,
    Situation,
    Verdict,
    explain,
    explain_queue,
)
from django_jobs.tasks.ids import LARGEST_ID

HELP = "Say why a job is not running, or how a queue fares."
S = Situation
# It does not start by itself, however long one waits.
STUCK = frozenset({
    S.QUEUE_NOT_SERVED, S.QUEUE_PAUSED, S.UNKNOWN_TASK, S.NO_WORKER_FITS, S.LIMIT_STOPPED,
    S.DEAD, S.DROPPED, S.CANCELLED, S.EXPIRED, S.UNKNOWN,
})  # fmt: skip

HOSTS: Columns = {
    "HOST": lambda each: each["host"],
    "WORKER": lambda each: each["name"],
    "HEALTH": lambda each: each["health"],
    "REASON": lambda each: each["reason"] or "could take it now",
    "DETAIL": lambda each: each["detail"],
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what is asked about."""
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("job", nargs="?", metavar="ID", help="of a job")
    asked.add_argument("--queue", metavar="NAME", help="a queue instead of a job")


def run(call: Call) -> Status:
    """Explain it; the status is 3 for what does not start by itself."""
    if call.given.queue is not None:
        return _queue(call, call.given.queue)
    return _job(call, call.given.job)


def _job(call: Call, text: str) -> Status:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= LARGEST_ID):
        msg = f"{text!r:.60} is no id of a job."
        raise Failed(msg, Status.USAGE)
    try:
        found = explain(int(text), database=call.database)
    except Job.DoesNotExist:
        msg = f"There is no job {text}: it never was, or it has been purged."
        raise Failed(msg) from None
    job = found.job
    call.out.say(f"job {job.id}  {job.task}  {job.state}  queue {job.queue}")
    about = {"job": job.id, "task": job.task, "state": job.state, "queue": job.queue}
    checks = [_check(each) for each in found.checks]
    _tell(call, about, found.verdict, found.hosts, checks)
    return _status(found.verdict)


def _queue(call: Call, name: str) -> Status:
    found = explain_queue(call.backend, name, database=call.database)
    call.out.say(f"queue {name}  {found.ready}{'+' if found.is_more else ''} ready")
    about = {
        "queue": name,
        "ready": found.ready,
        "is_more": found.is_more,
        "oldest_seconds": found.oldest_seconds,
    }
    _tell(call, about, found.verdict, found.hosts, [])
    return _status(found.verdict)


def _status(verdict: Verdict) -> Status:
    return Status.UNMET if verdict.situation in STUCK else Status.DONE


def _tell(
    call: Call, about: Record, verdict: Verdict, hosts: Iterable[HostLine], checks: list[Record]
) -> None:
    found = [_host(each) for each in hosts]
    told = {"situation": str(verdict.situation), "sentence": verdict.sentence}
    extra = {"more": verdict.more, "then": verdict.then, "command": verdict.command}
    call.out.record({**about, **told, **extra, "checks": checks, "hosts": found})
    if call.out.json:
        return
    for line in (verdict.sentence, verdict.more, verdict.then):
        if line:
            call.out.say(line)
    if found:
        call.out.show(found, HOSTS, none="")
    if verdict.command:
        call.out.say(f"next: {verdict.command}")


def _check(check: Check) -> Record:
    return {"name": str(check.name), "result": check.result, "detail": str(check.detail)}


def _host(line: HostLine) -> Record:
    return {
        "host": line.host, "worker": line.worker, "name": line.label, "health": line.health,
        "reason": None if line.reason is None else str(line.reason), "detail": line.detail,
        "since": line.since,
    }  # fmt: skip
