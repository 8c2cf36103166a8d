"""Moments and durations as pages say them, by the database's clock."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

MINUTE, HOUR, DAY = 60, 3600, 86_400


def duration(seconds: float) -> str:
    """Say how long something took or takes: ``0.4 s``, ``14 m 02 s``, ``3 h 05 m``."""
    if seconds < 10:  # noqa: PLR2004 - below that tenths are of interest
        return _("%.1f s") % seconds
    whole = int(seconds)
    if whole < MINUTE:
        return _("%d s") % whole
    if whole < HOUR:
        return _("%(minutes)d m %(seconds)02d s") % {
            "minutes": whole // MINUTE,
            "seconds": whole % MINUTE,
        }
    if whole < DAY:
        return _("%(hours)d h %(minutes)02d m") % {
            "hours": whole // HOUR,
            "minutes": whole % HOUR // MINUTE,
        }
    return _("%(days)d d %(hours)d h") % {"days": whole // DAY, "hours": whole % DAY // HOUR}


def took(seconds: float) -> str:
    """Say how long something took, to the millisecond where that is all there is."""
    return duration(seconds) if seconds >= 1 else _("%d ms") % (seconds * 1000)


def absolute(moment: datetime) -> str:
    """Say a moment to the second, with its time zone."""
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    return f"{local:%Y-%m-%d %H:%M:%S %Z}".strip()


def when(moment: datetime | None, *, now: datetime) -> SafeString | str:
    """Say how far ``moment`` is from ``now``; the moment itself is in the title."""
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    words = _("%s ago") if seconds >= 0 else _("in %s")
    return marked(moment, words % duration(abs(seconds)))


def marked(moment: datetime, words: str) -> SafeString:
    """Return ``words`` about a moment that a pointer, or a machine, can read exactly."""
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', moment.isoformat(), absolute(moment), words
    )
