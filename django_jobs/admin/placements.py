"""What jobs ask of hosts, and what workers offer, as text to read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from django_jobs.exceptions import InvalidRequires
from django_jobs.models import Placement
from django_jobs.sql import SiteDatabase, array

MOST = 1000  # jobs of one placement that are counted
MOST_NAMED = 50  # labels, resources or queues of a worker
MOST_LANES = 1000  # pairs of queue and placement that are looked at


@dataclass(frozen=True, slots=True)
class Behind:
    """How many ready jobs there are of one placement."""

    count: int
    cut: bool = False  # not every queue was looked at

    def __str__(self) -> str:
        """Say it no more exactly than it was counted."""
        if self.count > MOST:
            return "1k+"
        return number_format(self.count) + ("+" if self.cut else "")


def ready_jobs(ids: Iterable[int], *, database: str) -> dict[int, Behind]:
    """Return placement → its ready jobs, of all in one statement."""
    params = {"placements": array(sorted(set(ids))), "counted": MOST, "lanes": MOST_LANES}
    rows = SiteDatabase(database).fetch("ready_placements", params)
    return {pk: Behind(count, cut) for pk, count, cut in rows}


def asked(ids: Iterable[int], *, database: str) -> dict[int, str]:
    """Return placement → what is asked of a host, in a line; 0 has no row."""
    wanted = {pk for pk in ids if pk}
    found = Placement.objects.using(database).filter(pk__in=wanted) if wanted else ()
    lines = {placement.pk: in_a_line(placement) for placement in found}
    gone = {pk: _("placement %d, which is gone") % pk for pk in wanted}
    return {0: _("any host"), **gone, **lines}


def in_a_line(placement: Placement) -> str:
    """Say what is asked for; what another version wrote, as it is."""
    try:
        return str(placement)
    except (InvalidRequires, TypeError, ValueError):
        parts = [placement.host, *placement.labels, placement.resources, placement.task]
        return ", ".join(str(part) for part in parts if part)


def some(names: Iterable[object]) -> str:
    """Name as many as anybody reads, and say how many more there are."""
    said = [str(name) for name in names]
    more = len(said) - MOST_NAMED
    if more <= 0:
        return ", ".join(said)
    parts = {"names": ", ".join(said[:MOST_NAMED]), "more": more}
    return _("%(names)s and %(more)d more") % parts


def labels(offered: Collection[str]) -> str:
    """Say which labels a worker offers."""
    return some(sorted(map(str, offered)))


def amounts(resources: object) -> str:
    """Say how much a worker offers of what; what another version wrote, as it is."""
    if not isinstance(resources, Mapping):
        return str(resources)
    return some(f"{name} {_amount(value)}" for name, value in sorted(resources.items()))


def _amount(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_format(value, use_l10n=True)
    return str(value)
