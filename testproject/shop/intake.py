"""Take the shop's files in: rows into the database, slow work into jobs."""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from django.db import transaction

from django_jobs.models import Event, Job, Lease
from testproject.shop.models import Order, Product
from testproject.shop.sample import OrderRow, PhotoRow, PriceRow, ProductRow
from testproject.shop.tasks import change_price, resize_photo, send_receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from testproject.shop.paths import Folder


@dataclass(frozen=True, slots=True)
class Batch:
    """The jobs of one intake, by queue."""

    ids: Mapping[str, tuple[int, ...]]

    @property
    def asked(self) -> dict[str, int]:
        """How many jobs were enqueued, by queue."""
        return {queue: len(ids) for queue, ids in self.ids.items()}

    @property
    def all_ids(self) -> list[int]:
        """Every job's id."""
        return [job for ids in self.ids.values() for job in ids]


def clear(place: Folder) -> None:
    """Forget an earlier intake: its jobs, its rows and what was made from them."""
    tasks = [task.module_path for task in (change_price, resize_photo, send_receipt)]
    with transaction.atomic():
        jobs = Job.objects.filter(task__in=tasks)
        for children in (Lease.objects, Event.objects):  # no foreign key leads to a job
            children.filter(job_id__in=jobs.values("pk")).delete()
        jobs.delete()
        Order.objects.all().delete()
        Product.objects.all().delete()
    for made in (place.thumbnails, place.mail):
        shutil.rmtree(made, ignore_errors=True)


@transaction.atomic
def take_in(place: Folder) -> Batch:
    """Load the lists and enqueue a job for each line of work, all of it or nothing.

    The 3,000 price changes come first, and yet no photo waits behind them: the worker deals
    its places to the queues in turn.
    """
    Product.objects.bulk_create(read_products(place))
    orders = Order.objects.bulk_create(read_orders(place))
    return Batch(
        {
            "imports": numbers(
                change_price.enqueue_many(
                    change_price.s(int(row.line), row.sku, row.price, supplier=row.supplier)
                    for row in read_prices(place)
                ),
            ),
            "photos": numbers(
                resize_photo.enqueue_many(
                    resize_photo.s(row.name, shelf=row.shelf) for row in read_photos(place)
                ),
            ),
            "mail": numbers(
                send_receipt.enqueue_many(send_receipt.s(order.pk) for order in orders),
            ),
        },
    )


def read_products(place: Folder) -> list[Product]:
    """Read the catalogue."""
    rows = (ProductRow(**row) for row in read_csv(place.products))
    return [Product(sku=row.sku, name=row.name, price=Decimal(row.price)) for row in rows]


def read_orders(place: Folder) -> list[Order]:
    """Read the orders, at the prices of the catalogue."""
    products = {product.sku: product for product in Product.objects.all()}
    rows = (OrderRow(**row) for row in read_csv(place.orders))
    return [
        Order(
            number=row.number,
            customer=row.customer,
            email=row.email,
            product=products[row.sku],
            quantity=int(row.quantity),
            total=products[row.sku].price * int(row.quantity),
        )
        for row in rows
    ]


def read_prices(place: Folder) -> list[PriceRow]:
    """Read the price list."""
    return [PriceRow(**row) for row in read_csv(place.prices)]


def read_photos(place: Folder) -> list[PhotoRow]:
    """Read the list of photos."""
    return [PhotoRow(**row) for row in read_csv(place.photo_list)]


def last_prices(place: Folder) -> dict[str, Decimal]:
    """Say what each product must cost once every line of the price list was applied."""
    prices = {row["sku"]: Decimal(row["price"]) for row in read_csv(place.products)}
    for row in read_prices(place):
        if row.sku in prices:
            prices[row.sku] = Decimal(row.price)
    return prices


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a list with its field names in the first line."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers(ids: Iterable[str]) -> tuple[int, ...]:
    """Turn the ids of results into those of rows."""
    return tuple(int(job) for job in ids)
