"""How far a run is, by its own word, and whether its time is over."""

from __future__ import annotations

from math import isfinite
from typing import Any

from django.db.models import Case, F, OuterRef, Q, Subquery, TextField, When
from django.db.models.functions import Cast, Left
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_jobs.admin.moments import MINUTE, duration
from django_jobs.admin.pretty import decoded, shown
from django_jobs.models import Lease
from django_jobs.states import JobState
from django_jobs.tasks.context import MESSAGE_CHARS, NUMBERS

READ = 4096  # characters of a stored text; we write no more than that
BRIEF = 60  # characters of a message in a list
WHOLE = 1e15  # below it a float tells every whole number apart


def progress_text() -> Any:
    """Return an expression for a lease's progress as text, however that was written."""
    return Left(Cast(F("progress"), TextField()), READ)


def of_lease(expression: Any) -> Case:
    """Return an expression for what the lease of a running job says; null for others."""
    leases = Lease.objects.filter(job_id=OuterRef("pk")).order_by()
    said = Subquery(leases.annotate(said=expression).values("said")[:1])
    return Case(When(state=JobState.RUNNING, then=said))


def bar(text: str | None, *, brief: bool = False) -> SafeString | str:
    """Return a stored progress as a bar and in words; nothing where it says none."""
    said = decoded(text)
    done, total, message = _number_in(said, "done"), _number_in(said, "total"), said.get("message")
    if done is None:
        return ""
    total = total or None
    words = _words(done, total)
    if message and isinstance(message, str):
        most = BRIEF if brief else MESSAGE_CHARS
        words = _("%(far)s, %(message)s") % {
            "far": words,
            "message": Truncator(shown(message[: MESSAGE_CHARS + 1]).text).chars(most),
        }
    if total is None:  # nobody knows how long the bar would be
        return format_html('<span class="jobs-progress">{}</span>', words)
    share = 1.0 if done >= total else done / total
    html = '<span class="jobs-progress"><progress aria-label="{}" value="{}"></progress> {}</span>'
    return format_html(html, _("Progress"), f"{share:.3f}", words)


def _number_in(said: dict[str, Any], name: str) -> float | None:
    """Return a number that can be shown; a hand may have written anything."""
    value = said.get(name)
    try:
        return value if isinstance(value, NUMBERS) and isfinite(value) and value >= 0 else None
    except OverflowError:
        return None


def _words(done: float, total: float | None) -> str:
    if total is None:
        return _("%s done") % _number(done)
    both = {"done": _number(done), "total": _number(total)}
    if done > total:  # it was guessed too low: a part of it would say nothing
        return _("%(done)s of %(total)s") % both
    percent = 100 if done == total else min(int(done / total * 100), 99)
    return _("%(done)s of %(total)s (%(percent)d %%)") % {**both, "percent": percent}


def _number(value: float) -> str:
    return f"{int(value):,}" if value < WHOLE and value == int(value) else f"{value:.6g}"


def timeout(seconds: float | None) -> str:
    """Say what a job's row tells of its timeout."""
    if seconds is None:
        return _("as its worker says")
    if not isfinite(seconds):
        return _("none")
    return _("%g s") % seconds if seconds < MINUTE else duration(seconds)


OVER = Q(timed_out_at__isnull=False)


def overdue(count: int) -> SafeString | str:
    """Say how many runs of a worker go on although their time is over."""
    if not count:
        return ""
    words = ngettext("%d over its timeout", "%d over their timeout", count) % count
    return marked_overdue(words)


def marked_overdue(words: str) -> SafeString:
    """Return ``words`` about a run whose time is over, to be seen."""
    html = '<span class="jobs-badge jobs-overdue"><span aria-hidden="true">▲</span> {}</span>'
    return format_html(html, words)
