"""The page between a click and what cannot be undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.core import signing
from django.db.models import Count, Max, Min
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_jobs.admin.badges import state_badge
from django_jobs.admin.moments import when
from django_jobs.admin.verbs import Verb
from django_jobs.models import Job

SALT = "django_jobs.admin.confirmation"
SECONDS = 600  # that a page may lie open before it must be asked for again
SAMPLE = 5


@dataclass(frozen=True, slots=True)
class Scope:
    """The very jobs that were chosen, and where to go when it was not done, or was."""

    verb: str
    ids: list[int]
    back: str
    after: str

    def sealed(self) -> str:
        """Write it for a form to carry: nobody can add an id, however many there are."""
        fields = [self.verb, self.ids, self.back, self.after]
        return signing.dumps(fields, salt=SALT, compress=True)


def unsealed(text: str, verb: Verb) -> Scope | None:
    """Return what a form has carried; None when it is old, or another's."""
    try:
        scope = Scope(*signing.loads(text, salt=SALT, max_age=SECONDS))
    except (signing.BadSignature, TypeError):  # or another version's
        return None
    return scope if scope.verb == verb.name else None


class ConfirmForm(forms.Form):
    """Why, and what."""

    scope = forms.CharField(widget=forms.HiddenInput)
    reason = forms.CharField(
        label=_("Reason"), max_length=500, help_text=_("It is kept in the activity.")
    )

    def __init__(self, verb: Verb, *args: Any, **kwargs: Any) -> None:
        """Ask for a reason where the verb does."""
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = verb.needs_reason


@dataclass(frozen=True, slots=True)
class Group:
    """Those of the chosen jobs that are in one state."""

    state: Any
    count: int
    oldest: datetime
    newest: datetime
    now: datetime

    @property
    def first(self) -> str:
        """When the first of them was enqueued."""
        return when(self.oldest, now=self.now)

    @property
    def last(self) -> str:
        """When the last of them was enqueued."""
        return when(self.newest, now=self.now)


def groups(ids: Sequence[int], *, database: str) -> list[Group]:
    """Count the chosen jobs by state, as they are now."""
    rows = (
        Job.objects.using(database)
        .filter(pk__in=ids)
        .values("state")
        .annotate(n=Count("*"), oldest=Min("enqueued_at"), newest=Max("enqueued_at"), now=Now())
        .order_by("-n")
        .values_list("state", "n", "oldest", "newest", "now")
    )
    return [Group(state_badge(state), *rest) for state, *rest in rows]


def sample(ids: Sequence[int], *, database: str) -> list[Job]:
    """Return a few of the chosen jobs, the newest first."""
    jobs = Job.objects.using(database).filter(pk__in=ids).only("task", "queue", "state")
    return list(jobs.order_by("-pk")[:SAMPLE])


def context(
    request: HttpRequest, verb: Verb, scope: Scope, form: ConfirmForm | None, *, database: str
) -> dict[str, Any]:
    """Return what the page shows."""
    return {
        "verb": verb,
        "count": len(scope.ids),
        "groups": groups(scope.ids, database=database),
        "sample": sample(scope.ids, database=database),
        "form": form or ConfirmForm(verb, initial={"scope": scope.sealed()}),
        "back": scope.back,
    }
