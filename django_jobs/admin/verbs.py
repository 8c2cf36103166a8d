"""What an operator may do to jobs: a permission, an operation, an honest count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_jobs.admin.badges import label
from django_jobs.operations.act import LOCKED, NOT_FOUND, Actor
from django_jobs.operations.cancel import Cancelled, cancel
from django_jobs.operations.purge import Purged, purge
from django_jobs.operations.requeue import KEY_TAKEN, Requeued, requeue
from django_jobs.operations.run_now import RunNow, run_now
from django_jobs.states import FINAL, LIVE, JobState

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

REASONS = {
    NOT_FOUND: gettext_lazy("not found"),
    LOCKED: gettext_lazy("being changed by somebody else"),
    KEY_TAKEN: gettext_lazy("its unique key is taken by a live job"),
}
LIVE_ARE_LEFT = gettext_lazy("A job that is live by then is left alone.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One thing to do to jobs."""

    name: str
    title: _StrPromise
    question: _StrPromise
    run: Callable[..., Requeued | Purged | RunNow | Cancelled]
    done: Callable[[int], str]
    at_once: int  # up to so many jobs are changed without a page that asks
    needs_reason: bool
    states: frozenset[JobState]  # of the jobs that it is for
    others: _StrPromise  # what becomes of jobs in another state

    @property
    def permission(self) -> str:
        """The permission that the verb asks for."""
        return f"django_jobs.{self.name}_job"

    def allowed(self, request: HttpRequest) -> bool:
        """Tell whether the user may do it."""
        return bool(request.user.has_perm(self.permission))


REQUEUE = Verb(
    name="requeue",
    title=gettext_lazy("Requeue"),
    question=gettext_lazy("These jobs become ready again, with all their attempts."),
    run=requeue,
    done=lambda count: ngettext("%d job requeued.", "%d jobs requeued.", count) % count,
    at_once=100,
    needs_reason=False,
    states=FINAL,
    others=LIVE_ARE_LEFT,
)
PURGE = Verb(
    name="purge",
    title=gettext_lazy("Purge"),
    question=gettext_lazy("These jobs and their history are deleted for good."),
    run=purge,
    done=lambda count: ngettext("%d job purged.", "%d jobs purged.", count) % count,
    at_once=0,
    needs_reason=True,
    states=FINAL,
    others=LIVE_ARE_LEFT,
)
RUN = Verb(
    name="run",
    title=gettext_lazy("Run now"),
    question=gettext_lazy("These jobs become ready, whatever time they were to wait for."),
    run=run_now,
    done=lambda count: ngettext("%d job is ready now.", "%d jobs are ready now.", count) % count,
    at_once=100,
    needs_reason=False,
    states=frozenset({JobState.SCHEDULED}),
    others=gettext_lazy("A job that is no longer scheduled by then is left alone."),
)
CANCEL = Verb(
    name="cancel",
    title=gettext_lazy("Cancel"),
    question=gettext_lazy(
        "These jobs are cancelled, and with them those that wait for their success. One that"
        " is running is asked to end."
    ),
    run=cancel,
    done=lambda count: ngettext("%d job cancelled.", "%d jobs cancelled.", count) % count,
    at_once=0,
    needs_reason=True,
    states=LIVE,
    others=gettext_lazy("A job that has ended by then is left alone."),
)
VERBS = (RUN, CANCEL, REQUEUE, PURGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """A form that posts: what it is called, where to, and with what."""

    title: str
    url: str
    fields: tuple[tuple[str, str], ...] = ()
    named: bool = False  # by the verdict: it is what to do
    danger: bool = False


def actor_of(request: HttpRequest) -> Actor:
    """Return the user as the one who acts."""
    user: Any = request.user
    return Actor(id=str(user.pk), name=user.get_username(), via="admin")


def perform(
    request: HttpRequest, verb: Verb, ids: list[int], *, reason: str, database: str
) -> None:
    """Do it in the user's name and tell what became of each job."""
    done = verb.run(ids, actor=actor_of(request), reason=reason, database=database)
    level = messages.WARNING if done.refused else messages.SUCCESS
    asked = done.asked if isinstance(done, Cancelled) else 0
    messages.add_message(request, level, report(verb, done.count, done.refused, asked=asked))


def report(verb: Verb, count: int, refused: Mapping[int, str], *, asked: int = 0) -> str:
    """Say how many jobs were changed, and what the others were."""
    said = [verb.done(count)] if count or not asked else []
    if asked:
        text = ngettext(
            "%d running job is asked to end.", "%d running jobs are asked to end.", asked
        )
        said.append(text % asked)
    if refused:
        said += [_left_alone(refused)]
    return " ".join(said)


def _left_alone(refused: Mapping[int, str]) -> str:
    left = ngettext("%d was left alone:", "%d were left alone:", len(refused)) % len(refused)
    kinds = Counter(refused.values()).most_common()
    parts = [f"{number} {REASONS.get(reason) or label(reason)}" for reason, number in kinds]
    return f"{left} {_(', ').join(parts)}."
