"""What follows a commit of the loop's: who waited goes on, and who sleeps is woken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

from django_jobs.operations.claim import Other
from django_jobs.operations.follow import follow
from django_jobs.operations.free import Freed, set_free
from django_jobs.operations.reconcile import reconcile
from django_jobs.operations.settle import Answer, Settled
from django_jobs.worker.connection import PrivateDatabase


class After:
    """Belongs to the loop, and uses its connection.

    Should the process die before it, or within it, the sweeper of some worker does the same.
    """

    def __init__(
        self,
        *,
        worker: UUID,
        alias: str,
        database: PrivateDatabase,
        ended: Callable[[Other | Freed], None],
        expect: Callable[[float], None],
    ) -> None:
        """``ended`` is told of what no run ended, ``expect`` of each near due time."""
        self._worker = worker
        self._alias = alias
        self._database = database
        self._ended = ended
        self._expect = expect
        self._woken: dict[int, str] = {}  # jobs whose place this worker made free → queue

    def settled(self, answers: Sequence[Settled]) -> None:
        """Free who waited for a permit, or for one of the jobs themselves."""
        self._right_permits(answers)
        freed = follow(
            answers,
            worker=self._worker,
            database=self._database,
            own=self._alias,
            woken=self._woken,
        )
        self._free(freed)

    def handed_back(self, answers: Sequence[Settled]) -> None:
        """Announce those whose jobs have ended all the same, and free who waited."""
        for answer in answers:
            if answer.finished_at is not None and answer.state is not None:
                self._ended(Freed(answer.job, self._alias, answer.state, ""))
        self.settled(answers)

    def ended(self, parents: Collection[int]) -> None:
        """Free who waited for jobs that a claim has ended."""
        if parents:
            self._free(set_free(parents, worker=self._worker, database=self._database))

    def claimed(self, jobs: Iterable[int]) -> None:
        """Ring for none of these: a claim has seen them."""
        for pk in jobs:
            self._woken.pop(pk, None)

    def ring_for_woken(self) -> None:
        """Wake other workers for those that the claim after it did not get."""
        self.ring_for(set(self._woken.values()))
        self._woken.clear()

    def ring_for(self, queues: set[str]) -> None:
        """Wake other workers for jobs that this one has made ready."""
        if queues:
            params = {"backend": self._alias, "queues": sorted(queues)}
            self._database.fetch("ring", params)

    def _right_permits(self, answers: Sequence[Settled]) -> None:
        """Count the permits of what was settled before: perhaps by its run, which leaves them.

        They are counted and not taken off: the sweeper may have counted them already.
        """
        keys = {
            answer.limit_key
            for answer in answers
            if answer.answer == Answer.REPEATED and answer.limit_key is not None
        }
        if keys:
            transaction = self._database.connection().transaction()
            reconcile(keys, transaction=transaction, database=self._database)

    def _free(self, freed: Sequence[Freed]) -> None:
        """Mind jobs that waited for others: those due soon, those that are cancelled."""
        if any(job.state == "scheduled" for job in freed):
            self._expect(0.0)
        for job in freed:
            self._ended(job)
