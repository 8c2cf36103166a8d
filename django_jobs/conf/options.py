"""The options of one backend alias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import router

from django_jobs.compat import DEFAULT_TASK_QUEUE_NAME
from django_jobs.conf.cron import CronEntry, cron_entries
from django_jobs.conf.queues import QueueOptions, queue_options
from django_jobs.conf.retention import retention
from django_jobs.conf.values import (
    LARGEST,
    LONGEST,
    MOST,
    InvalidOption,
    did_you_mean,
    fitting,
    is_queue_name,
    queue_names,
    seconds,
    whole,
)
from django_jobs.placement import Requires, checked_amounts, checked_labels
from django_jobs.retries import Backoff, exponential

DEFAULT_SLOTS = 8
FLAGS = {
    "max_in_flight": "--max-in-flight",
    "queues": "--queue",
    "lease_seconds": "--lease",
    "drain_seconds": "--drain-timeout",
    "timeout_seconds": "--timeout",
    "listen": "--no-listen",
    "labels": "--label",
    "resources": "--resource",
}
SLACK = 1e-9  # a third of a lease, written as a float, may be a hair above it


class Options:
    """The options of one backend alias, read late and checked at each read.

    Keyword arguments, those of a command line, go before the settings and are checked alike.
    """

    def __init__(self, alias: str, **overrides: Any) -> None:
        """Leave out what is None in ``overrides``."""
        self.alias = alias
        self._overrides = {name: value for name, value in overrides.items() if value is not None}
        for name in self._overrides:
            if name not in OPTION_NAMES:
                raise TypeError(f"There is no option {name!r}.{did_you_mean(name, OPTION_NAMES)}")

    @property
    def max_in_flight(self) -> int:
        """The cap: most leases that a worker holds."""
        return self._whole("max_in_flight", 6, MOST)

    @property
    def queues(self) -> dict[str, QueueOptions]:
        """The options of each queue for which some are set."""
        said = self._settings_of_queues()
        for name, entry in self._overrides.get("queues", {}).items():
            said[name] = {**said.get(name, {}), **entry}
        where = self.where("queues")
        return {
            name: queue_options(name, entry, f"{where}[{name!r}]") for name, entry in said.items()
        }

    @property
    def lease_seconds(self) -> float:
        """How long a claimed job stays its worker's between two renewals."""
        return self._seconds("lease_seconds", 30.0, 2.0)

    @property
    def renew_seconds(self) -> float:
        """The interval between two renewals; a third of the lease unless it is set."""
        lease = self.lease_seconds
        value = self._seconds("renew_seconds", lease / 3, 0.001)
        if value * 3 > lease * (1 + SLACK):
            raise self._invalid(
                "renew_seconds",
                f"Set it to at most a third of lease_seconds, which is {lease:g}, or leave it "
                "out: a worker needs more than one chance to renew.",
                code="E004",
            )
        return value

    @property
    def drain_seconds(self) -> float:
        """How long a draining worker waits for what it holds."""
        return self._seconds("drain_seconds", 25.0, 0.0)

    @property
    def poll_floor_seconds(self) -> float:
        """An idle worker's first wait between two looks."""
        return self._seconds("poll_floor_seconds", 0.05, 0.01, 10.0)

    @property
    def poll_ceiling_seconds(self) -> float:
        """An idle worker's longest wait between two looks."""
        floor = self.poll_floor_seconds
        value = self._seconds("poll_ceiling_seconds", 10.0, 0.01, 10.0)
        if value < floor:
            raise self._invalid(
                "poll_ceiling_seconds",
                f"Set it to at least poll_floor_seconds, which is {floor:g}: waits grow from it.",
                code="E005",
            )
        return value

    @property
    def listen(self) -> bool | str:
        """Whether a worker listens for notifications, or the alias over which it does."""
        value = self._get("listen", default=True)
        if isinstance(value, bool):
            return value
        return self._alias("listen", value, "True, False or an alias in DATABASES")

    @property
    def database(self) -> str:
        """The alias of the database that holds the jobs; by default the router says."""
        value = self._get("database")
        if value is None:
            value = router.db_for_write(apps.get_model("django_jobs", "Job"))
        return self._alias("database", value, "an alias in DATABASES")

    @property
    def max_attempts(self) -> int:
        """How many attempts a job has whose task does not say."""
        return self._whole("max_attempts", 3, MOST)

    @property
    def backoff(self) -> Backoff:
        """How long to wait between the attempts of a task that does not say."""
        value = self._get("backoff")
        if value is None:
            return exponential()
        if not isinstance(value, Backoff):
            cure = "Set it to exponential(…), linear(…) or constant(…), imported from django_jobs."
            raise self._invalid("backoff", cure)
        return value

    @property
    def max_payload_bytes(self) -> int:
        """The most that the arguments of a job take as JSON."""
        return self._whole("max_payload_bytes", 1024 * 1024, LARGEST)

    @property
    def max_result_bytes(self) -> int:
        """The most that the result of a job takes as JSON."""
        return self._whole("max_result_bytes", 1024 * 1024, LARGEST)

    @property
    def max_error_chars(self) -> int:
        """Where the text of an error is cut."""
        return self._whole("max_error_chars", 32_768, LARGEST)

    @property
    def watchdog_seconds(self) -> float:
        """How long the loop may be silent before its process ends.

        By default 120, or four leases when that is longer.
        """
        lease = self.lease_seconds
        value = self._seconds("watchdog_seconds", max(120.0, 4 * lease), 0.0, 4 * LONGEST)
        if value <= lease:
            raise self._invalid(
                "watchdog_seconds",
                f"Set it to more than lease_seconds, which is {lease:g}: a loop that waits for "
                "the database is not stuck.",
                code="E006",
            )
        return value

    @property
    def timeout_seconds(self) -> float | None:
        """How long one run may take whose task does not say; None: as long as it needs."""
        if self._get("timeout_seconds") is None:
            return None
        try:
            return self._seconds("timeout_seconds", 0.0, 0.1)
        except InvalidOption as error:
            cure = f"{error.cure.removesuffix('.')}, or leave it out for none."
            raise self._invalid("timeout_seconds", cure) from None

    @property
    def grace_seconds(self) -> float:
        """How long a run that was told that its time is over has until it counts as stuck."""
        return self._seconds("grace_seconds", 10.0, 0.0)

    @property
    def labels(self) -> frozenset[str]:
        """What workers offer to jobs that require labels."""
        return fitting(checked_labels, self._get("labels", frozenset()), self.where("labels"))

    @property
    def resources(self) -> Mapping[str, float]:
        """How much of what one worker offers: name → amount."""
        return fitting(checked_amounts, self._get("resources", {}), self.where("resources"))

    @property
    def cron(self) -> Mapping[str, CronEntry]:
        """The schedules: name → which task is enqueued when."""
        return cron_entries(self._get("cron", {}), self.where("cron"))

    @property
    def retention(self) -> Mapping[str, float | None]:
        """The age in seconds at which what is over is purged, by its state; None: never."""
        return retention(self._get("retention", {}), self.where("retention"))

    @property
    def unknown_task_seconds(self) -> float:
        """How long no live worker may know a job's task, until it is warned of."""
        return self._seconds("unknown_task_seconds", 3600.0, 1.0)

    @property
    def queue_names(self) -> list[str]:
        """``QUEUES`` in its order; empty: any name."""
        where = f"TASKS[{self.alias!r}]['QUEUES']"
        return queue_names(self.params.get("QUEUES", [DEFAULT_TASK_QUEUE_NAME]), where)

    def slots(self, queue: str, *, default: int = DEFAULT_SLOTS) -> int:
        """Return the most jobs of ``queue`` that one worker holds."""
        said = self.queues.get(queue, QueueOptions()).slots
        return default if said is None else said

    def weight(self, queue: str) -> int:
        """Return the share of ``queue`` relative to the others."""
        return self.queues.get(queue, QueueOptions()).weight

    def requires(self, queue: str) -> Requires | None:
        """Return what jobs of ``queue`` require whose task does not say.

        Each enqueue asks, so the other queues are left to the check.
        """
        said = self.options.get("queues", {})
        if not isinstance(said, Mapping) or "queues" in self._overrides:
            return self.queues.get(queue, QueueOptions()).requires
        if queue not in said:
            return None
        return queue_options(queue, said[queue], f"{self.where('queues')}[{queue!r}]").requires

    @property
    def params(self) -> Mapping[str, Any]:
        """``TASKS[alias]`` as it stands."""
        found = getattr(settings, "TASKS", {}).get(self.alias, {})
        return found if isinstance(found, Mapping) else {}

    @property
    def options(self) -> Mapping[str, Any]:
        """``TASKS[alias]["OPTIONS"]`` as it stands."""
        value = self.params.get("OPTIONS", {})
        if not isinstance(value, Mapping):
            where = f"TASKS[{self.alias!r}]['OPTIONS']"
            raise InvalidOption(where, value, "Set it to a dictionary.", code="E009")
        return value

    def where(self, name: str) -> str:
        """Return where the value of an option stands: a flag, or a path in the settings."""
        if name in self._overrides:
            return FLAGS.get(name, name)
        return f"TASKS[{self.alias!r}]['OPTIONS'][{name!r}]"

    def _get(self, name: str, default: Any = None) -> Any:
        if name in self._overrides:
            return self._overrides[name]
        return self.options.get(name, default)

    def _invalid(self, name: str, cure: str, *, code: str = "E003") -> InvalidOption:
        return InvalidOption(self.where(name), self._get(name), cure, code=code)

    def _whole(self, name: str, default: int, most: int) -> int:
        return whole(self._get(name, default), self.where(name), 1, most)

    def _seconds(self, name: str, default: float, least: float, most: float = LONGEST) -> float:
        return seconds(self._get(name, default), self.where(name), least, most)

    def _alias(self, name: str, value: object, kinds: str) -> str:
        if not isinstance(value, str) or value not in settings.DATABASES:
            raise InvalidOption(self.where(name), value, f"Set it to {kinds}.", code="E010")
        return value

    def _settings_of_queues(self) -> dict[str, Any]:
        """Return the settings' word, of queues that ``QUEUES`` lets jobs into."""
        value = self.options.get("queues", {})
        where = f"TASKS[{self.alias!r}]['OPTIONS']['queues']"
        if not isinstance(value, Mapping):
            raise InvalidOption(where, value, "Set it to {'name': {'slots': 4, 'weight': 1}}.")
        names = self.queue_names
        for name in value:
            if is_queue_name(name) and names and name not in names:
                cure = f"Add {name!r} to QUEUES, or take it out here.{did_you_mean(name, names)}"
                raise InvalidOption(where, value, cure, code="E007")
        return dict(value)


OPTION_NAMES = tuple(
    name
    for name, member in vars(Options).items()
    if isinstance(member, property) and name not in ("queue_names", "params", "options")
)
