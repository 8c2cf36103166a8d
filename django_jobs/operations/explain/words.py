"""A few names, and a moment, as every sentence says them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

NAMED = 5  # hosts, jobs or keys that a detail names


def some(names: Sequence[str], between: str = ", ", *, of: int | None = None) -> str:
    """Name a few, and say how many more there are of ``of``."""
    said = between.join(names[:NAMED])
    more = (len(names) if of is None else of) - len(names[:NAMED])
    return said if more <= 0 else _("%(names)s and %(more)d more") % {"names": said, "more": more}


def moment(value: datetime) -> str:
    """Say a moment to the second, with its time zone."""
    local = timezone.localtime(value) if timezone.is_aware(value) else value
    return f"{local:%Y-%m-%d %H:%M:%S %Z}".strip()
