"""``manage.py shop_data``: write the shop's input files."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand

from testproject.shop import sample
from testproject.shop.paths import Folder, folder, shown
from testproject.shop.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from django.core.management.base import CommandParser

    Rows = (
        Sequence[sample.ProductRow]
        | Sequence[sample.PriceRow]
        | Sequence[sample.OrderRow]
        | Sequence[sample.PhotoRow]
    )


class Command(BaseCommand):
    """Writes a catalogue, a price list, orders and photos."""

    help = "Write the shop's sample data: three lists and forty photos, drawn from a seed."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare ``--seed``."""
        parser.add_argument(
            "--seed",
            type=int,
            default=sample.SEED,
            help="The same seed writes the same files (default: %(default)s).",
        )

    def handle(self, *_args: Any, seed: int, **_options: Any) -> None:
        """Write everything, with a line of progress for the photos."""
        place = folder()
        write_lists(place, seed)
        with Progress(self.stdout) as progress:
            for number, row in enumerate(sample.photos(seed), start=1):
                write_photo(place, row, seed)
                progress.show(f"photos drawn: {number}/{sample.PHOTOS}")
        self.stdout.write(
            f"{sample.PRICE_CHANGES:,} price changes, {sample.ORDERS} orders and "
            f"{sample.PHOTOS} photos in {shown(place.root)} (seed {seed})",
        )


def write_lists(place: Folder, seed: int) -> None:
    """Write the four lists."""
    place.root.mkdir(parents=True, exist_ok=True)
    write_csv(place.products, sample.products(seed))
    write_csv(place.prices, sample.price_changes(seed))
    write_csv(place.orders, sample.orders(seed))
    write_csv(place.photo_list, sample.photos(seed))


def write_csv(path: Path, rows: Rows) -> None:
    """Write rows below the names of their fields."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0]._fields)
        writer.writerows(rows)


def write_photo(place: Folder, row: sample.PhotoRow, seed: int) -> None:
    """Draw one photo; of a torn one only the first half is written."""
    content = sample.draw(row, seed)
    if row.name in sample.torn_photos(seed):
        content = content[: len(content) // 2]
    place.photos.mkdir(parents=True, exist_ok=True)
    (place.photos / row.name).write_bytes(content)
