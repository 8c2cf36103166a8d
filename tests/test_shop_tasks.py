"""The shop's tasks, which may run twice, late and out of order."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path
from smtplib import SMTPResponseException
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from PIL import Image

from testproject.shop import outside, sample
from testproject.shop.models import Order, Product
from testproject.shop.paths import Folder
from testproject.shop.tasks import UnknownProduct, change_price, resize_photo, send_receipt
from tests.processes import wait_for

FIRST, SECOND = (SimpleNamespace(attempt=number) for number in (1, 2))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Let the shop keep its files in a folder of this test."""
    monkeypatch.setenv("SHOP_FOLDER", str(tmp_path / "shop"))
    return Folder(tmp_path / "shop")


def product(**values: Any) -> Product:
    """Put a product on the shelf."""
    return Product.objects.create(
        **{"sku": "P-1", "name": "Red mug", "price": Decimal("9.00"), **values},
    )


def order(**values: Any) -> Order:
    """Have a customer buy two of a product."""
    values = {"number": "S-1", "customer": "Ada Berg", "email": "ada@mail.example", **values}
    return Order.objects.create(product=product(), quantity=2, total=Decimal("18.00"), **values)


def price_of(sku: str) -> tuple[Decimal, int]:
    """Return a product's price and the line that set it."""
    found = Product.objects.get(sku=sku)
    return found.price, found.price_line


def files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below ``folder``."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


# change_price


@pytest.mark.django_db
def test_the_last_line_wins_whichever_job_comes_last():
    product(sku="P-1")

    said = [
        change_price.func(FIRST, 8, "P-1", "8.00", supplier="Halden"),
        change_price.func(FIRST, 9, "P-1", "9.99", supplier="Halden"),
        change_price.func(FIRST, 5, "P-1", "5.00", supplier="Halden"),
    ]

    assert ["changed", "changed", "superseded"] == said
    assert (Decimal("9.99"), 9) == price_of("P-1")


@pytest.mark.django_db
def test_a_price_change_that_runs_twice_changes_once():
    product(sku="P-1")

    said = [change_price.func(FIRST, 8, "P-1", "8.00", supplier="Halden") for _ in range(2)]

    assert ["changed", "superseded"] == said
    assert (Decimal("8.00"), 8) == price_of("P-1")


@pytest.mark.django_db(transaction=True)
def test_an_earlier_line_that_waits_for_a_later_one_does_not_undo_it(
    second_connection: BaseDatabaseWrapper,
):
    product(sku="P-1")
    said: list[str] = []

    def earlier() -> None:
        said.append(change_price.func(FIRST, 5, "P-1", "5.00", supplier="Halden"))
        connection.close()

    thread = threading.Thread(target=earlier)
    with transaction.atomic():
        change_price.func(FIRST, 9, "P-1", "9.99", supplier="Halden")
        thread.start()
        with second_connection.cursor() as cursor:
            wait_for(lambda: waiting(cursor), what="The earlier line waits for no lock.")
    thread.join()

    assert ["superseded"] == said
    assert (Decimal("9.99"), 9) == price_of("P-1")


def waiting(cursor: Any) -> bool:
    """Tell whether a session of this database waits for a lock."""
    cursor.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    return bool(cursor.fetchone()[0])


@pytest.mark.django_db
@pytest.mark.parametrize("attempt", [FIRST, SECOND])
def test_the_price_of_no_known_product_fails_on_every_attempt(attempt):
    with pytest.raises(UnknownProduct, match="X-1 is in no catalogue yet"):
        change_price.func(attempt, 1, "X-1", "1.00", supplier="Halden")


@pytest.mark.django_db
def test_a_supplier_that_hangs_up_is_asked_again():
    product(sku="P-1")
    call = (1, "P-1", "1.00")

    with pytest.raises(ConnectionResetError):
        change_price.func(FIRST, *call, supplier=outside.HESITANT_SUPPLIER)

    assert "changed" == change_price.func(SECOND, *call, supplier=outside.HESITANT_SUPPLIER)


# resize_photo


def photo(place: Folder, *, part: float = 1) -> None:
    """Have ``P-001.jpg`` brought, or only the first part of it."""
    content = sample.draw(sample.photos(7)[0], 7)
    place.photos.mkdir(parents=True)
    (place.photos / "P-001.jpg").write_bytes(content[: int(len(content) * part)])


def test_a_photo_gives_the_same_thumbnail_however_often_it_is_resized(place):
    photo(place)

    said = resize_photo.func(FIRST, "P-001.jpg", shelf="warm")
    once = files(place.thumbnails)
    resize_photo.func(SECOND, "P-001.jpg", shelf="warm")

    assert ["P-001.jpg"] == list(once)
    assert once == files(place.thumbnails)
    assert {"width": 400, "height": 300, "bytes": len(once["P-001.jpg"])} == said
    with Image.open(place.thumbnails / "P-001.jpg") as made:
        assert (400, 300) == made.size


def test_a_torn_photo_fails_and_leaves_nothing_behind(place):
    photo(place, part=0.5)

    with pytest.raises(OSError, match="truncated"):
        resize_photo.func(SECOND, "P-001.jpg", shelf="warm")

    assert {} == files(place.thumbnails)


def test_a_photo_on_the_cold_shelf_is_there_for_the_second_attempt(place):
    photo(place)

    with pytest.raises(TimeoutError):
        resize_photo.func(FIRST, "P-001.jpg", shelf=outside.COLD_SHELF)

    assert resize_photo.func(SECOND, "P-001.jpg", shelf=outside.COLD_SHELF)


# send_receipt


@pytest.mark.django_db
def test_an_order_gets_one_receipt_however_often_it_is_sent(place):
    bought = order(number="S-77")

    said = [send_receipt.func(FIRST, bought.pk) for _ in range(3)]

    [mail] = files(place.mail).values()
    assert ["sent", "sent before", "sent before"] == said
    assert b"Subject: Your receipt for order S-77" in mail
    assert b"2 x Red mug    18.00 EUR" in mail


@pytest.mark.django_db
def test_a_greylisted_receipt_goes_out_on_the_second_attempt(place):
    bought = order(email=f"ada@{outside.GREYLISTING_DOMAIN}")

    with pytest.raises(SMTPResponseException):
        send_receipt.func(FIRST, bought.pk)
    assert {} == files(place.mail)

    assert "sent" == send_receipt.func(SECOND, bought.pk)


@pytest.mark.django_db
def test_each_receipt_has_a_file_of_its_own_within_one_second(place):
    product()
    bought = Order.objects.bulk_create(
        Order(number=f"S-{number}", product=Product.objects.get(), quantity=1, total=1)
        for number in range(50)
    )

    for each in bought:
        send_receipt.func(FIRST, each.pk)

    assert 50 == len(files(place.mail))
