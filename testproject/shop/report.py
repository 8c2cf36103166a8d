"""How the figures read, and what is wrong with them; nothing here asks anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testproject.shop import sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta
    from decimal import Decimal

    from testproject.shop.figures import DeadPrice, Figures, Line, Standing

HEADING = (
    "                                               waited              ran",
    "queue    enqueued succeeded retried  dead   median      max   median      max",
)
LEGEND = (
    "retried: took more than one attempt; waited: until the first attempt began;",
    "ran: the last attempt.",
)


def report(figures: Figures) -> list[str]:
    """Return the table: a line a queue, and one for all."""
    rows = [line_of_table(line) for line in (*figures.lines, figures.total)]
    return [*HEADING, *rows, "", *LEGEND]


def line_of_table(line: Line) -> str:
    """Return one line of the table."""
    times = (line.waited, line.waited_most, line.ran, line.ran_most)
    return (
        f"{line.queue:<8}{line.enqueued:>9,}{line.succeeded:>10,}{line.retried:>8,}"
        f"{line.dead:>6,}" + "".join(f"{duration(time):>9}" for time in times)
    )


def duration(time: timedelta | None) -> str:
    """Say how long in three digits or so."""
    if time is None:
        return "-"
    seconds = time.total_seconds()
    if seconds < 0.01:  # noqa: PLR2004 - below this a digit after the point says something
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def headway(standings: Sequence[Standing], asked: Mapping[str, int]) -> str:
    """Say in one line how far the work is."""
    queues = [f"{each.queue} {each.ended:,}/{asked[each.queue]:,}" for each in standings]
    counts = {
        "running": sum(each.running for each in standings),
        "to retry": sum(each.to_retry for each in standings),
        "dead": sum(each.dead for each in standings),
    }
    return "  ".join([*queues, *(f"{number} {what}" for what, number in counts.items())])


def problems(figures: Figures) -> Iterator[str]:
    """Yield a sentence for each figure that is not what it must be."""
    yield from wrong_sums(figures)
    if figures.total.dead != sample.FAIL_ALWAYS:
        yield f"{figures.total.dead} dead, and {sample.FAIL_ALWAYS} must be."
    yield from wrong_prices(figures.prices, figures.last_prices)
    yield from wrong_files(figures)


def verdict(figures: Figures) -> str:
    """Say what was checked and found right."""
    total = figures.total
    return (
        f"Right: {total.succeeded:,} succeeded + {total.dead} dead = {total.enqueued:,} enqueued;"
        f"\nall {len(figures.prices)} products have their last price; {figures.mails} mails and "
        f"{figures.thumbnails} thumbnails are there."
    )


def meant_to_die() -> str:
    """Say why some jobs are dead although nothing is wrong."""
    return (
        f"The {sample.FAIL_ALWAYS} dead are meant to be: {sample.TORN} torn photos, "
        f"{sample.UNKNOWN} prices of unknown products."
    )


def invitation(price: DeadPrice) -> str:
    """Say how one of the dead can be brought to a good end."""
    return f"Add product {price.sku} under Shop, requeue job {price.job}, and see it succeed."


def wrong_sums(figures: Figures) -> Iterator[str]:
    """Yield a sentence for each queue whose jobs have not all ended well or dead."""
    ended = {line.queue: (line.succeeded, line.dead) for line in figures.lines}
    for queue, asked in figures.asked.items():
        succeeded, dead = ended.get(queue, (0, 0))
        if succeeded + dead != asked:
            yield (
                f"{queue}: {succeeded:,} succeeded and {dead:,} dead make "
                f"{succeeded + dead:,}, but {asked:,} were enqueued."
            )


def wrong_prices(prices: Mapping[str, Decimal], last: Mapping[str, Decimal]) -> Iterator[str]:
    """Yield one sentence about the products whose price is not the list's last."""
    wrong = sorted(sku for sku in {*prices, *last} if prices.get(sku) != last.get(sku))
    if wrong:
        sku = wrong[0]
        yield (
            f"{sku} costs {prices.get(sku)}, but the list ends with {last.get(sku)}; "
            f"wrong prices in all: {len(wrong)}."
        )


def wrong_files(figures: Figures) -> Iterator[str]:
    """Yield a sentence if mails or thumbnails are missing or too many."""
    if figures.mails != figures.asked["mail"]:
        yield f"{figures.mails} mail files, and {figures.asked['mail']} must be."
    resized = sum(line.succeeded for line in figures.lines if line.queue == "photos")
    if figures.thumbnails != resized:
        yield f"{figures.thumbnails} thumbnails, but {resized} photos were resized."
