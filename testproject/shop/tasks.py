"""What the shop leaves to its workers: start reading here.

A task is an ordinary function until somebody enqueues a call of it::

    change_price.enqueue(1204, "P-042", "12.90", supplier="Halden")

Then a worker runs it: a moment later, in another process, beside five others, and once more
when the attempt fails or its machine dies. So each task below answers one question in its
docstring: what if it runs twice, or late, or out of order?
"""

from __future__ import annotations

from decimal import Decimal
from smtplib import SMTPException
from typing import TYPE_CHECKING

from django.core.mail import EmailMessage
from django.core.mail.backends.filebased import EmailBackend
from django.db.models.functions import Now
from PIL import Image

from django_jobs import constant, task
from testproject.shop import outside
from testproject.shop.models import Order, Product
from testproject.shop.paths import folder

if TYPE_CHECKING:
    from typing import Any

    from django_jobs.compat import TaskContext

    Context = TaskContext[Any, Any]

THUMBNAIL = (400, 300)


class UnknownProduct(Exception):
    """A price for a product that is not there; it may be there at the next attempt."""


@task(queue_name="imports", max_attempts=3, backoff=constant(0.5), takes_context=True)
def change_price(context: Context, line: int, sku: str, price: str, *, supplier: str) -> str:
    """Set a product's price, unless a later line of the price list has been here.

    Twice, late, out of order: the product remembers which line set its price, and a single
    UPDATE compares and sets, so the last line wins whichever job comes last.
    """
    outside.confirm_price(supplier, attempt=context.attempt)
    earlier = Product.objects.filter(sku=sku, price_line__lt=line)
    if earlier.update(price=Decimal(price), price_line=line):
        return "changed"
    if not Product.objects.filter(sku=sku).exists():
        raise UnknownProduct(f"{sku} is in no catalogue yet")
    return "superseded"


@task(
    queue_name="photos",
    max_attempts=3,
    backoff=constant(0.5),
    retry_on=(OSError,),  # a file that is late or torn; anything else is our mistake
    takes_context=True,
)
def resize_photo(context: Context, name: str, *, shelf: str) -> dict[str, int]:
    """Make a photo's thumbnail.

    Twice: the same photo gives the same thumbnail. It is written beside its place under a
    name of this attempt's own and moved there in one step, so nobody ever sees half of it.
    """
    outside.fetch_photo(name, shelf, attempt=context.attempt)
    place = folder().thumbnails / name
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(f".{context.attempt}.part")
    with Image.open(folder().photos / name) as photo:
        photo.thumbnail(THUMBNAIL)
        photo.save(part, format="JPEG", quality=85)
        width, height = photo.size
    part.replace(place)
    return {"width": width, "height": height, "bytes": place.stat().st_size}


@task(
    queue_name="mail",
    max_attempts=3,
    backoff=constant(0.5),
    retry_on=(SMTPException, OSError),
    takes_context=True,
)
def send_receipt(context: Context, order_id: int) -> str:
    """Mail a customer the receipt of an order.

    Twice: an order whose receipt went out is left alone. Should the machine die between the
    last two statements, the customer gets a second mail, which is better than none.
    """
    order = Order.objects.select_related("product").get(pk=order_id)
    if order.receipt_sent_at is not None:
        return "sent before"
    outside.accept_mail(order.email, attempt=context.attempt)
    EmailBackend(file_path=str(folder().mail / order.number)).send_messages([receipt(order)])
    Order.objects.filter(pk=order_id).update(receipt_sent_at=Now())
    return "sent"


def receipt(order: Order) -> EmailMessage:
    """Write the mail of an order."""
    return EmailMessage(
        subject=f"Your receipt for order {order.number}",
        body=(
            f"Dear {order.customer},\n\n"
            f"thank you for your order {order.number}:\n\n"
            f"    {order.quantity} x {order.product.name}    {order.total} EUR\n\n"
            "Yours, the shop\n"
        ),
        from_email="shop@example.com",
        to=[order.email],
    )
