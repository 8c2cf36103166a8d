"""A state as shape, word and colour, so that none of them stands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_jobs.states import JobState

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

SHAPES = {
    JobState.WAITING: "◌",
    JobState.SCHEDULED: "◷",
    JobState.READY: "●",
    JobState.BLOCKED: "■",
    JobState.RUNNING: "▶",
    JobState.SUCCEEDED: "✓",
    JobState.DEAD: "✕",
    JobState.DROPPED: "✕",
    JobState.CANCELLED: "⊘",
    JobState.EXPIRED: "⊘",
}
HEALTH = {
    "live": ("✓", _("live")),
    "late": ("●", _("late")),
    "gone": ("▲", _("gone")),
    "draining": ("◷", _("draining")),
    "stopped": ("■", _("stopped")),
    "paused": ("■", _("paused")),
    "unserved": ("▲", _("no worker")),
    "ok": ("✓", _("ok")),
}
SCHEDULES = {
    "enabled": ("✓", _("enabled")),
    "disabled": ("■", _("disabled")),
    "off": ("■", _("off")),
    "removed": ("⊘", _("gone")),
    "due": ("●", _("now due")),
}
CHECKS = {
    "pass": ("✓", _("pass")),
    "blocks": ("✕", _("blocks")),
    "would_block": ("●", _("would block")),
    "unknown": ("?", _("not known")),
}


def known(state: str) -> str:
    """Return ``state``, or ``unknown`` for one that another version wrote."""
    return state if state in JobState.values else "unknown"


def label(state: str) -> str:
    """Return a state's word; of a state that another version wrote, the word as it is."""
    return str(JobState(state).label) if state in JobState.values else state


def state_badge(state: str) -> SafeString:
    """Return the badge of a job's state."""
    shape = SHAPES[JobState(state)] if state in JobState.values else "?"
    return _badge(known(state), shape, label(state))


def health_badge(health: str) -> SafeString:
    """Return the badge of a worker's or a queue's health."""
    shape, word = HEALTH[health]
    return _badge(health, shape, str(word))


def schedule_badge(standing: str) -> SafeString:
    """Return the badge of whether a schedule fires."""
    shape, word = SCHEDULES[standing]
    return _badge(standing, shape, str(word))


def check_badge(result: str) -> SafeString:
    """Return the badge of what one check of an explanation found."""
    shape, word = CHECKS[result]
    return _badge(result, shape, str(word))


def free_badge() -> SafeString:
    """Return the badge of a worker that could take the job now."""
    return _badge("ok", "✓", _("could take it"))


def _badge(name: str, shape: str, word: str | _StrPromise) -> SafeString:
    return format_html(
        '<span class="jobs-badge jobs-{}"><span aria-hidden="true">{}</span> {}</span>',
        name,
        shape,
        word,
    )
