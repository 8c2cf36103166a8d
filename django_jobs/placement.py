"""What a job asks of a host, and why a host passes over it: one chain, in one order.

The claim's lanes and every explanation come from the same functions, so page and worker
cannot disagree. Nothing here reads a clock or a database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from math import ceil, floor, ldexp, log2, log10
from types import MappingProxyType
from typing import Any, NamedTuple

from django_jobs.exceptions import InvalidRequires

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/+-]{0,99}")
LABEL_RULE = (
    "a label is 1 to 100 characters of letters, digits and '_ - . : / +', and begins with a "
    "letter or digit"
)
RESOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
RESOURCE_RULE = (
    "the name of a resource is 1 to 50 characters of letters, digits and '_', and begins with a "
    "letter"
)
HOST_RULE = "the name of a host is printable text of 1 to 100 characters without spaces"
LONGEST_HOST = 100
MOST = 50  # labels or resources that are asked for at once
SMALLEST, LARGEST = 1e-3, 1e15  # of an amount
AMOUNT_RULE = "a number from 0.001 to 1e15"
SLACK = 1e-9  # sums of amounts such as 0.1 are a hair beside the truth


class Reason(StrEnum):
    """Why a host passes over a job, in the order in which it is asked. Public, stable."""

    QUEUE_NOT_SERVED = "queue_not_served"
    QUEUE_PAUSED = "queue_paused"
    DRAINING = "draining"
    UNKNOWN_TASK = "unknown_task"
    HOST = "host"
    OS = "os"
    ARCH = "arch"
    LABEL = "label"
    RESOURCE = "resource"
    AT_CAPACITY = "at_capacity"


# Those that hold as long as the worker lives: they are written down, the others read live.
RECORDED = frozenset(
    {Reason.UNKNOWN_TASK, Reason.HOST, Reason.OS, Reason.ARCH, Reason.LABEL, Reason.RESOURCE}
)
FAMILIES = {"os:": Reason.OS, "arch:": Reason.ARCH}


class Mismatch(NamedTuple):
    """A reason, and what in particular: text for people."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """What a job asks of the host that runs it; nothing: any host will do.

    ``host``: the name of a worker (``--name``) or of its machine. ``labels``: all of them
    must be offered, such as ``{"gpu", "os:linux"}``. ``resources``: name → amount that must
    be free, such as ``{"memory_mb": 6000}``; it is held while the job runs. Raises
    ``InvalidRequires`` for what no worker could offer.
    """

    host: str | None = None
    labels: Collection[str] = frozenset()
    resources: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be written; keep what nobody can change."""
        if self.host is not None:
            check_host(self.host, "host")
        object.__setattr__(self, "labels", checked_labels(self.labels, "labels"))
        object.__setattr__(self, "resources", checked_amounts(self.resources, "resources"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by value: a read-only mapping cannot be."""
        return _restored, (self.host, self.labels, dict(self.resources))

    def __str__(self) -> str:
        """Say it in a line."""
        return str(Needs(requires=self))


def _restored(host: str | None, labels: Collection[str], amounts: dict[str, float]) -> Requires:
    return Requires(host=host, labels=labels, resources=amounts)


def check_host(value: object, where: str) -> str:
    """Return ``value`` when it can name a host."""
    if not isinstance(value, str) or not value.isprintable() or not value or " " in value:
        raise InvalidRequires(where, value, f"Change it: {HOST_RULE}.")
    if len(value) > LONGEST_HOST:
        raise InvalidRequires(where, value, f"Cut it, it has {len(value)}: {HOST_RULE}.")
    return value


def checked_labels(value: object, where: str) -> frozenset[str]:
    """Return labels as a set; one text is not a collection of them."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Collection):
        raise InvalidRequires(where, value, "Set it to a set of labels, such as {'gpu'}.")
    for label in value:
        if not isinstance(label, str) or not LABEL.fullmatch(label):
            raise InvalidRequires(where, value, f"Change {label!r:.120}: {LABEL_RULE}.")
    if len(value) > MOST:
        raise InvalidRequires(where, value, f"Name at most {MOST} labels.")
    return frozenset(value)


def checked_amounts(value: object, where: str) -> Mapping[str, float]:
    """Return a read-only copy of name → amount."""
    if not isinstance(value, Mapping):
        cure = "Set it to a dictionary, such as {'memory_mb': 6000}."
        raise InvalidRequires(where, value, cure)
    for name, amount in value.items():
        if not isinstance(name, str) or not RESOURCE.fullmatch(name):
            raise InvalidRequires(where, value, f"Change {name!r:.120}: {RESOURCE_RULE}.")
        if not is_amount(amount):
            raise InvalidRequires(f"{where}[{name!r}]", amount, f"Set {name!r} to {AMOUNT_RULE}.")
    if len(value) > MOST:
        raise InvalidRequires(where, value, f"Name at most {MOST} resources.")
    return MappingProxyType(dict(sorted(value.items())))


def is_amount(value: object) -> bool:
    """Tell whether ``value`` can be an amount of a resource; ``True`` is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return SMALLEST <= value <= LARGEST  # which NaN is not


def rung(amount: float) -> int | float:
    """Return the least amount of the ladder that is no smaller; placements stay few by it.

    The ladder has the numbers of two decimal digits (1.5, 30, 7900) and those of three
    binary ones (512, 6144, 8192), so it adds less than a tenth, and to usual amounts nothing.
    """
    tens, twos = floor(log10(amount)) - 1, floor(log2(amount)) - 2
    found = min(
        float(f"{ceil(amount / 10.0**tens - SLACK)}e{tens}"),  # the nearest to what is written
        ldexp(ceil(amount / 2.0**twos - SLACK), twos),
    )
    return int(found) if found.is_integer() else found


def written(amount: float) -> str:
    """Return an amount as people write it."""
    return f"{amount:.0f}" if float(amount).is_integer() else f"{amount:.12g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """One placement: what is asked of a host, amounts rounded up, and whose code it takes."""

    requires: Requires = field(default_factory=Requires)
    task: str | None = None  # only a worker that knows this task will do

    @property
    def is_anywhere(self) -> bool:
        """Whether any host will do."""
        asked = self.requires
        plain = not (asked.host or asked.labels or asked.resources)
        return plain and self.task is None  # which may be "", in a row made by hand

    @property
    def amounts(self) -> dict[str, int | float]:
        """The resources on the ladder."""
        return {name: rung(amount) for name, amount in self.requires.resources.items()}

    @property
    def digest(self) -> str:
        """By what equal placements are found: 32 hex digits."""
        return _digest(self)

    def __str__(self) -> str:
        """Say it in a line: ``host web-1, gpu, memory_mb 6000``."""
        asked = self.requires
        parts = [f"host {asked.host}"] if asked.host else []
        parts += sorted(asked.labels)
        parts += [f"{name} {written(amount)}" for name, amount in self.amounts.items()]
        parts += [f"task {self.task}"] if self.task else []
        return ", ".join(parts) or "any host"


@lru_cache(maxsize=1000)  # an enqueue asks several times, of each of many jobs alike
def _digest(needs: Needs) -> str:
    asked = needs.requires
    said = [asked.host, sorted(asked.labels), sorted(needs.amounts.items()), needs.task]
    return sha256(json.dumps(said).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a worker is and offers, whatever it holds at the moment."""

    names: Collection[str]  # its own and those of its machine
    labels: Collection[str] = frozenset()
    resources: Mapping[str, float] = field(default_factory=dict)
    knows: Callable[[str], bool] = lambda _task: True


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What a worker is about at the moment, and has left."""

    serves: bool = True  # the job's queue
    paused: bool = False  # the job's queue
    draining: bool = False
    room: int = 1  # places free in all
    slots: int = 1  # places free for the job's queue
    free: Mapping[str, float] = field(default_factory=dict)  # resources
    suspect: bool = False  # it holds one


def mismatches(needs: Needs, host: Host, now: Now, *, suspect: bool = False) -> Iterator[Mismatch]:
    """Yield every reason why this worker would not take such a job, in order."""
    if not now.serves:
        yield Mismatch(Reason.QUEUE_NOT_SERVED, "")
    if now.paused:
        yield Mismatch(Reason.QUEUE_PAUSED, "")
    if now.draining:
        yield Mismatch(Reason.DRAINING, "")
    yield from lasting(needs, host)
    yield from _full(needs, host, now, suspect=suspect)


def lasting(needs: Needs, host: Host) -> Iterator[Mismatch]:
    """Yield the reasons that what the host is gives: those that are recorded."""
    asked = needs.requires
    if needs.task is not None and not host.knows(needs.task):
        yield Mismatch(Reason.UNKNOWN_TASK, needs.task)
    if asked.host is not None and asked.host not in host.names:
        yield Mismatch(Reason.HOST, asked.host)
    missing = set(asked.labels) - set(host.labels)
    for reason in (Reason.OS, Reason.ARCH, Reason.LABEL):
        if told := sorted(label for label in missing if reason_of(label) is reason):
            yield Mismatch(reason, ", ".join(told))
    short = [
        f"{name} {written(there)} of {written(amount)}"
        for name, amount in needs.amounts.items()
        if not enough(there := host.resources.get(name, 0), amount)
    ]
    if short:
        yield Mismatch(Reason.RESOURCE, ", ".join(short))


def reason_of(label: str) -> Reason:
    """Return why a host without ``label`` passes over a job that asks for it."""
    family, colon, _ = label.partition(":")
    return FAMILIES.get(family + colon, Reason.LABEL)


def fits(needs: Needs, host: Host) -> bool:
    """Tell whether the host could ever run such a job."""
    return next(lasting(needs, host), None) is None


def has_free(amounts: Mapping[str, float], free: Mapping[str, float]) -> bool:
    """Tell whether of each resource so much is left; ``amounts`` are on the ladder."""
    return all(enough(free.get(name, 0), amount) for name, amount in amounts.items())


def enough(there: float, asked: float) -> bool:
    """Compare amounts, of which sums are a hair beside the truth."""
    return there >= asked * (1 - SLACK)


def _full(needs: Needs, host: Host, now: Now, *, suspect: bool) -> Iterator[Mismatch]:
    """Yield what is used up; ``suspect``: the job is one, of which a worker holds one."""
    if now.room <= 0:
        yield Mismatch(Reason.AT_CAPACITY, "all places are taken")
    if now.slots <= 0:
        yield Mismatch(Reason.AT_CAPACITY, "all slots of the queue are taken")
    if suspect and now.suspect:
        yield Mismatch(Reason.AT_CAPACITY, "it holds another suspect")
    used = [
        name
        for name, amount in needs.amounts.items()
        if enough(host.resources.get(name, 0), amount)
        and not enough(now.free.get(name, 0), amount)
    ]  # what the host never had is no matter of use
    if used:
        yield Mismatch(Reason.AT_CAPACITY, f"{', '.join(used)} in use")
