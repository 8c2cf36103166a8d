"""What an explanation says, as a banner and as the rows of two tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils.html import format_html
from django.utils.safestring import SafeString

from django_jobs.admin.badges import check_badge, free_badge, health_badge
from django_jobs.admin.moments import when
from django_jobs.operations.explain.explanation import Check, HostLine

MOST = 100  # workers that a page names
Link = Callable[[UUID, str], str]  # a worker's id and its name → how to name it


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One thing that a claim asks."""

    name: str
    result: SafeString
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """What one worker would say to the job."""

    host: str
    worker: str
    health: SafeString
    reason: SafeString
    detail: str
    also: list[tuple[str, str]]
    since: SafeString | str
    recorded: bool


def check_rows(checks: Iterable[Check]) -> list[CheckRow]:
    """Return the table of checks."""
    return [
        CheckRow(name=str(check.name), result=check_badge(check.result), detail=check.detail)
        for check in checks
    ]


@dataclass(frozen=True, slots=True)
class Hosts:
    """The table of hosts, and how many it leaves out."""

    rows: Sequence[HostRow] = ()
    left_out: int = 0


def hosts(lines: Sequence[HostLine], *, link: Link, now: datetime) -> Hosts:
    """Return the table of hosts; ``link`` makes a worker's name lead to it."""
    return Hosts(_rows(lines[:MOST], link=link, now=now), max(len(lines) - MOST, 0))


def _rows(lines: Iterable[HostLine], *, link: Link, now: datetime) -> list[HostRow]:
    return [
        HostRow(
            host=line.host,
            worker=line.label if line.worker is None else link(line.worker, line.label),
            health=health_badge(line.health),
            reason=_reason(line),
            detail=line.detail,
            also=[(str(reason), detail) for reason, detail in line.also],
            since=when(line.since, now=now),
            recorded=line.recorded,
        )
        for line in lines
    ]


def _reason(line: HostLine) -> SafeString:
    if line.reason is None:
        return free_badge()
    return format_html("<code>{}</code>", str(line.reason))
