"""``jobs purge``: delete jobs that ended long ago, and their history."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from time import monotonic, sleep
from types import FrameType

from django_jobs.conf.values import shown
from django_jobs.management.frame import Call, Failed, Status, add_act_flags
from django_jobs.management.output import Record
from django_jobs.management.spans import seconds_of
from django_jobs.operations.purge_matching import (
    Matching,
    Progress,
    Which,
    long_ago,
    matching,
    purge_matching,
)
from django_jobs.states import FINAL

HELP = "Delete jobs that ended long ago, with their history."
SAY_EVERY = 1.0  # seconds
LONGEST_REST = 1.0


def add_arguments(parser: ArgumentParser) -> None:
    """Declare which jobs are meant."""
    add = parser.add_argument
    add("--state", required=True, choices=sorted(FINAL), help="in which they ended")
    add("--older-than", required=True, metavar="AGE", help="since, as 90s, 12h or 30d")
    add("--queue", metavar="NAME", help="only of this queue")
    add("--task", metavar="PATH", help="only of this task")
    add("--dry-run", action="store_true", help="count them and change nothing")
    add_act_flags(parser, destroys=True)


def run(call: Call) -> Status:
    """Count, ask, and purge batch after batch; an interrupt ends it after one, and is told."""
    which = which_of(call)
    if call.given.dry_run or not call.given.yes:
        found = matching(which, database=call.database)
        _tell_count(call, which, found)
        if call.given.dry_run or not found.count:
            return Status.DONE
        call.confirm("They cannot be brought back.", typed=str(found.count))
    return _purge(call, which)


def which_of(call: Call) -> Which:
    """Return what the words mean: what had ended so long before this moment."""
    given = call.given
    return Which(
        state=given.state,
        before=long_ago(_age(given.older_than), database=call.database),
        backend=call.backend,
        queue=given.queue,
        task=given.task,
    )


def _age(text: str) -> float:
    """Return the seconds; a number alone may have been meant as days."""
    if text[-1:].isdigit():
        msg = f"--older-than is {shown(text)}. Add a unit: {text}d is days, {text}s seconds."
        raise Failed(msg, Status.USAGE)
    return seconds_of(text, flag="--older-than")


def _tell_count(call: Call, which: Which, found: Matching) -> None:
    if call.given.dry_run or not found.count:
        call.out.record({
            **_about(which), "dry_run": call.given.dry_run, "matching": found.count,
            "oldest": found.oldest, "newest": found.newest,
        })  # fmt: skip
    if not found.count:
        call.out.say(f"There is none: {which.in_words()}.")
    else:
        call.out.say(f"{found.count} {which.in_words()}.")
        call.out.say(f"The oldest ended at {found.oldest}, the newest at {found.newest}.")


def _purge(call: Call, which: Which) -> Status:
    done = Progress()
    steps = purge_matching(
        which, actor=call.actor, reason=call.given.reason, database=call.database
    )
    try:
        with _ends_batches() as interrupts:
            for step in _unhurried(steps, interrupts):
                done = step
                if interrupts:
                    break
    except KeyboardInterrupt:
        _tell(call, which, done, end=", or a batch more: stopped in the middle of it")
        raise
    if interrupts:
        _tell(call, which, done, end=": stopped, the rest is as it was")
        raise KeyboardInterrupt
    _tell(call, which, done)
    if not done.refused:
        return Status.DONE
    return Status.PARTLY if done.count else Status.ERROR


def _unhurried(steps: Iterator[Progress], interrupts: list[int]) -> Iterator[Progress]:
    """Rest after each batch for as long as it took, so that workers go on; tell how far it is."""
    said_at = begun = monotonic()
    for done in steps:
        if monotonic() > said_at + SAY_EVERY:
            said_at = monotonic()
            print(f"{done.count} purged, up to {done.place.at}", file=sys.stderr, flush=True)  # noqa: T201
        if not interrupts:
            sleep(min(monotonic() - begun, LONGEST_REST))
        yield done
        begun = monotonic()


@contextmanager
def _ends_batches() -> Iterator[list[int]]:
    """Let a first Ctrl-C wait for the end of a batch, so that what is said of it is true.

    Yield the list to which it is added. The second one interrupts, as any does outside of the
    main thread; where they are ignored, they still are.
    """
    interrupts: list[int] = []
    usual = signal.getsignal(signal.SIGINT)

    def note(number: int, _frame: FrameType | None) -> None:
        if interrupts:
            raise KeyboardInterrupt
        interrupts.append(number)

    if usual in (signal.SIG_IGN, None) or current_thread() is not main_thread():
        yield interrupts
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, usual)


def _tell(call: Call, which: Which, done: Progress, *, end: str = "") -> None:
    why = Counter(done.refused.values())
    call.out.record({
        **_about(which), "dry_run": False, "purged": done.count, "refused": dict(why),
        "activity": done.activity, "stopped": bool(end),
    })  # fmt: skip
    call.out.say(f"{done.count} purged{end}.")
    if why:
        words = ", ".join(f"{count} {reason}" for reason, count in sorted(why.items()))
        call.out.say(f"{len(done.refused)} left alone: {words}.")


def _about(which: Which) -> Record:
    return {
        "state": which.state, "before": which.before, "queue": which.queue, "task": which.task,
    }  # fmt: skip
