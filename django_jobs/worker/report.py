"""Tells whoever measures it what became of runs and jobs, after the commit."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from django_jobs.operations.claim import Claimed, Other
from django_jobs.operations.expire import Expired
from django_jobs.operations.free import Freed
from django_jobs.operations.rescue import Rescued
from django_jobs.operations.settle import Answer, Settled
from django_jobs.states import FINAL
from django_jobs.watchers import Ending, is_watched, tell_end
from django_jobs.worker.run import Run


def settled(run: Run, answer: Settled) -> None:
    """Tell how a run has ended, and how long it took."""
    if is_watched():
        outcome = _outcome(run, answer)
        ended = outcome != "handed_back"
        ran = monotonic() - run.began_at if ended and run.began_at is not None else None
        tell_end(Ending(run.job.queue, outcome, ran, waited(run.job) if ended else None))


def cut_off(runs: Iterable[Run], answers: Iterable[Settled]) -> None:
    """Tell of runs that a drain has handed back."""
    by_lease = {run.job.lease: run for run in runs}
    for answer in answers:
        if answer.answer not in (Answer.BUSY, Answer.LOST):
            run = by_lease[answer.lease]
            outcome = answer.state if answer.finished_at is not None else "handed_back"
            tell_end(Ending(run.job.queue, str(outcome)))


def ended(job: Other | Freed | Rescued | Expired) -> None:
    """Tell of a job that ended without a run; of one without its queue ``cut_off`` tells."""
    state = "expired" if isinstance(job, Expired) else job.state
    if state in FINAL and job.queue:
        tell_end(Ending(job.queue, state))


def rescued(job: Rescued) -> None:
    """Tell of an attempt whose worker was lost, and after which there is another."""
    tell_end(Ending(job.queue, "rescued"))


def waited(job: Claimed) -> float | None:
    """Return the seconds from when a job could first have been claimed to its first attempt."""
    if job.attempt != 1 or job.life != 1:
        return None
    since = job.enqueued_at if job.run_after is None else max(job.enqueued_at, job.run_after)
    return max((job.last_attempted_at - since).total_seconds(), 0.0)


def _outcome(run: Run, answer: Settled) -> str:
    """Return the final state, or why there is none."""
    outcome = run.outcome
    if answer.finished_at is not None:
        return str(answer.state)
    if outcome is not None and not outcome.refund:
        return "failed"
    if outcome is not None and outcome.kind in ("snoozed", "unknown_task"):
        return outcome.kind
    return "handed_back"
