"""Ask the database and the disk what becomes of a batch of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Aggregate, Count, DurationField, F, Max, Q

from django_jobs.models import Job
from django_jobs.states import JobState
from testproject.shop.intake import last_prices
from testproject.shop.models import Product

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from decimal import Decimal

    from testproject.shop.intake import Batch
    from testproject.shop.paths import Folder


class Median(Aggregate):
    """The middle value, as PostgreSQL counts it."""

    function = "PERCENTILE_CONT"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = DurationField()


WAITED = F("started_at") - F("enqueued_at")
RAN = F("finished_at") - F("last_attempted_at")
MEASURES: dict[str, Any] = {
    "enqueued": Count("pk"),
    "succeeded": Count("pk", filter=Q(state=JobState.SUCCEEDED)),
    "retried": Count("pk", filter=Q(attempt__gt=1)),
    "dead": Count("pk", filter=Q(state=JobState.DEAD)),
    "waited": Median(WAITED),
    "waited_most": Max(WAITED, output_field=DurationField()),
    "ran": Median(RAN),
    "ran_most": Max(RAN, output_field=DurationField()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The figures of one queue, or of all of them."""

    queue: str
    enqueued: int
    succeeded: int
    retried: int
    dead: int
    waited: timedelta | None
    waited_most: timedelta | None
    ran: timedelta | None
    ran_most: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is, beside what must be."""

    lines: Sequence[Line]
    total: Line
    asked: Mapping[str, int]
    prices: Mapping[str, Decimal]
    last_prices: Mapping[str, Decimal]
    mails: int
    thumbnails: int


def measure(batch: Batch, place: Folder) -> Figures:
    """Ask the database and the disk what became of ``batch``."""
    jobs = Job.objects.filter(pk__in=batch.all_ids)
    rows: Any = jobs.values("queue").annotate(**MEASURES)  # rows of names and values
    lines = {row["queue"]: Line(**row) for row in rows}
    return Figures(
        lines=[lines[queue] for queue in batch.ids if queue in lines],
        total=Line(queue="all", **jobs.aggregate(**MEASURES)),
        asked=batch.asked,
        prices=dict(Product.objects.values_list("sku", "price")),
        last_prices=last_prices(place),
        mails=count(place, "mail/*/*.log"),
        thumbnails=count(place, "thumbnails/*.jpg"),
    )


@dataclass(frozen=True, slots=True)
class DeadPrice:
    """A dead job that wanted to change the price of a product that is not there."""

    job: int
    sku: str


def dead_price(batch: Batch) -> DeadPrice | None:
    """Find the first of them."""
    dead = Job.objects.filter(pk__in=batch.all_ids, state=JobState.DEAD, queue="imports")
    job = dead.order_by("pk").first()
    return None if job is None else DeadPrice(job.pk, job.args[1])


def count(place: Folder, pattern: str) -> int:
    """Count the files that match ``pattern``."""
    return sum(1 for _ in place.root.glob(pattern))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far one queue is."""

    queue: str
    ended: int
    running: int
    to_retry: int
    dead: int


def standing(batch: Batch) -> list[Standing]:
    """Count where the jobs of ``batch`` stand at this moment."""
    rows = (
        Job.objects.filter(pk__in=batch.all_ids)
        .values("queue")
        .annotate(
            ended=Count("pk", filter=Q(finished_at__isnull=False)),
            running=Count("pk", filter=Q(state=JobState.RUNNING)),
            to_retry=Count("pk", filter=Q(state=JobState.SCHEDULED, attempt__gt=0)),
            dead=Count("pk", filter=Q(state=JobState.DEAD)),
        )
    )
    by_queue = {row["queue"]: Standing(**row) for row in rows}
    return [by_queue[queue] for queue in batch.ids if queue in by_queue]
