"""What a worker has done: a line for each run, and a sum at the end."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from datetime import datetime

from django_jobs.operations.claim import Claimed
from django_jobs.operations.settle import Outcome
from django_jobs.states import FINAL

logger = logging.getLogger("django_jobs.worker")

MOST_TOLD = 1000  # reasons remembered, so that each is told once


def jobs_in_words(count: int) -> str:
    """Return ``1 job`` or ``3 jobs``."""
    return f"{count} job" if count == 1 else f"{count} jobs"


@dataclass(slots=True)
class Tally:
    """Counts of ended runs; a death is told by Django's receiver of ``task_finished``."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0  # attempts that will be retried
    ended: int = 0  # dead, dropped, cancelled
    put_off: int = 0  # snoozed, or their task is unknown here
    handed_back: int = 0
    left: int = 0  # cut off by a drain and not idempotent: they lapse and are buried
    lost: int = 0
    _told: set[str] = field(default_factory=set)

    def note(self, job: Claimed, outcome: Outcome, finished_at: datetime | None) -> None:
        """Count a settled run, and write its line."""
        if outcome.state == "succeeded":
            self.succeeded += 1
            self._tell_success(job, finished_at)
        elif outcome.state in FINAL:
            self.ended += 1
        elif not outcome.refund:
            self.failed += 1
            self._tell_failure(job, outcome)
        elif outcome.kind in ("snoozed", "unknown_task"):
            self.put_off += 1
            self._tell_put_off(job, outcome)
        else:
            self.handed_back += 1

    def _tell_success(self, job: Claimed, finished_at: datetime | None) -> None:
        if finished_at is not None and logger.isEnabledFor(logging.INFO):
            seconds = (finished_at - job.last_attempted_at).total_seconds()
            logger.info("job %s succeeded: %s, %.3f s", job.id, job.task, seconds)

    def _tell_failure(self, job: Claimed, outcome: Outcome) -> None:
        logger.info(
            "job %s failed on attempt %s of %s, again in %.1f s: %s: %s",
            job.id,
            job.attempt,
            job.max_attempts,
            outcome.delay or 0.0,
            job.task,
            outcome.error,
        )

    def _tell_put_off(self, job: Claimed, outcome: Outcome) -> None:
        if outcome.kind == "snoozed":
            logger.info("job %s snoozed itself: %s", job.id, job.task)
            return
        reason = json.loads(outcome.data or "{}").get("reason", "")
        told = f"{job.task[:200]}: {reason}"
        if told not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(told)
            if outcome.placement is not None:
                words = "job %s is left to workers that know its task, unknown here: %s"
                logger.warning(words, job.id, told)
                return
            logger.warning(
                "job %s is put off by %.0f s, its task is unknown here: %s",
                job.id,
                outcome.delay or 0.0,
                told,
            )

    def __str__(self) -> str:
        """Say it in one line."""
        parts = [f"{self.claimed} claimed", f"{self.succeeded} succeeded"]
        parts += [f"{self.failed} to retry", f"{self.ended} ended otherwise"]
        parts += [f"{self.handed_back} handed back"]
        if self.put_off:
            parts.append(f"{self.put_off} put off")
        if self.left:
            parts.append(f"{self.left} left to lapse")
        return ", ".join([*parts, f"{self.lost} lost"])
