"""What this process holds, and what it may still take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from django_jobs.placement import has_free
from django_jobs.planner import Lane, Turns
from django_jobs.worker.hosting import Fit, Hosting
from django_jobs.worker.run import Run


class Capacity:
    """Leases held, against the cap and the slots of each queue.

    Changed by the loop's thread alone; other threads read snapshots. A place is taken from
    the claim until the run's outcome is committed, so leases never exceed the cap.
    """

    def __init__(
        self,
        *,
        cap: int,
        slots: dict[str, int],
        default_slots: int,
        hosting: Hosting | None = None,
    ) -> None:
        """``cap``: most leases held; ``slots``: queue → most of these for one queue.

        ``hosting``: the placements that may be claimed; None: only jobs for any host.
        """
        self.cap = cap
        self.default_slots = default_slots
        self._hosting = hosting
        self.held: dict[int, Run] = {}
        self._slots = slots

    def room(self) -> int:
        """Return how many more leases this worker may take."""
        return self.cap - len(self.held)

    def slots(self, queue: str) -> int:
        """Return how many places ``queue`` may fill in this worker."""
        return min(self._slots.get(queue, self.default_slots), self.cap)

    def take(self, runs: Iterable[Run]) -> None:
        """Note claimed jobs."""
        self.held.update({run.job.lease: run for run in runs})

    def release(self, lease: int) -> Run | None:
        """Free a place; None when it was free already, so twice is once."""
        return self.held.pop(lease, None)

    def free(self) -> dict[str, float]:
        """Return what is left of the host's resources."""
        if self._hosting is None or not self._hosting.host.resources:
            return {}
        left = dict(self._hosting.host.resources)
        for run in self.held.values():
            for name, amount in self._hosting.amounts(run.job.placement).items():
                left[name] = left.get(name, 0) - amount
        return left

    def _fits(self) -> list[Fit]:
        """Return the placements of which a job could start now."""
        if self._hosting is None:
            return [Fit(0)]
        free = self.free()
        return [fit for fit in self._hosting.fits if has_free(fit.amounts, free)]

    def lanes(self, queues: Sequence[str], turns: Turns) -> list[Lane]:
        """Return the lanes that may be claimed from now, in turn order."""
        taken = Counter(run.job.queue for run in self.held.values())
        suspects = any(run.job.suspect for run in self.held.values())
        fits = self._fits()
        return [
            Lane(
                queue=queue,
                slots=self.slots(queue),
                held=taken[queue],
                served=turns.served(queue),
                cost=turns.cost(queue),
                turn=turn,
                placement=fit.id,
                suspect=suspect,
                scarce=bool(fit.amounts),
            )
            for turn, queue in enumerate(queues)
            for fit in fits
            for suspect in ((False,) if suspects else (False, True))
        ]
