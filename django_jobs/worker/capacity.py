"""What this process holds, and what it may still take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from django_jobs.planner import Lane, Turns
from django_jobs.worker.run import Run


class Capacity:
    """Leases held, against the cap and the slots of each queue.

    Changed by the loop's thread alone; other threads read snapshots. A place is taken from
    the claim until the run's outcome is committed, so leases never exceed the cap.
    """

    def __init__(self, *, cap: int, slots: dict[str, int], default_slots: int) -> None:
        """``cap``: most leases held; ``slots``: queue → most of these for one queue."""
        self.cap = cap
        self.held: dict[int, Run] = {}
        self._slots = slots
        self._default_slots = default_slots

    def room(self) -> int:
        """Return how many more leases this worker may take."""
        return self.cap - len(self.held)

    def slots(self, queue: str) -> int:
        """Return how many places ``queue`` may fill in this worker."""
        return min(self._slots.get(queue, self._default_slots), self.cap)

    def take(self, runs: Iterable[Run]) -> None:
        """Note claimed jobs."""
        self.held.update({run.job.lease: run for run in runs})

    def release(self, lease: int) -> Run | None:
        """Free a place; None when it was free already, so twice is once."""
        return self.held.pop(lease, None)

    def lanes(self, queues: Sequence[str], turns: Turns) -> list[Lane]:
        """Return the lanes that may be claimed from now, in turn order."""
        taken = Counter(run.job.queue for run in self.held.values())
        suspects = any(run.job.suspect for run in self.held.values())
        return [
            Lane(
                queue=queue,
                slots=self.slots(queue),
                held=taken[queue],
                served=turns.served(queue),
                cost=turns.cost(queue),
                turn=turn,
                suspect=suspect,
            )
            for turn, queue in enumerate(queues)
            for suspect in ((False,) if suspects else (False, True))
        ]
