"""The jobs that a job waits for, and those that wait for it, as lists of links."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_jobs.admin.badges import state_badge
from django_jobs.admin.cells import job_url
from django_jobs.operations.explain.kin import COUNTED, Kin, Relative, Relatives

TITLES = (("parents", gettext_lazy("Parents")), ("children", gettext_lazy("Children")))


@dataclass(frozen=True, slots=True)
class Line:
    """One parent or child."""

    job: int
    url: str  # empty: it has been purged
    task: str
    badge: SafeString | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """The parents, or the children."""

    name: str
    title: str
    lines: list[Line]
    more: str  # how many others there are


def relations(kin: Kin, site: admin.AdminSite) -> list[Relations]:
    """Return the lists that are not empty."""
    return [
        Relations(
            name=name,
            title=str(title),
            lines=[_line(each, site) for each in found.named],
            more=_more(found),
        )
        for (name, title), found in zip(TITLES, (kin.parents, kin.children), strict=True)
        if found.total
    ]


def _line(relative: Relative, site: admin.AdminSite) -> Line:
    if relative.state is None:
        return Line(relative.job, "", "", _("is not there any more"))
    return Line(
        relative.job, job_url(relative.job, site), relative.task or "", state_badge(relative.state)
    )


def _more(found: Relatives) -> str:
    if found.total > COUNTED:
        return _("… and more than %d others.") % (COUNTED - len(found.named))
    left_out = found.total - len(found.named)
    return ngettext("… and %d more.", "… and %d more.", left_out) % left_out if left_out else ""
