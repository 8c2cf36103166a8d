"""The shop's sample data: the same seed gives the same files, byte by byte.

25 of the 3,340 calls that are made from it fail: 20 once, because the world outside says
"later", and 5 always, because a price is of no known product or a photo is torn.
"""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO
from random import Random
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont, ImageOps

from testproject.shop import outside

SEED = 2024
PRODUCTS, PRICE_CHANGES, PHOTOS, ORDERS = 200, 3_000, 40, 300
HESITANT, COLD, GREYLISTED = 10, 4, 6  # these calls fail on their first attempt
UNKNOWN, TORN = 3, 2  # these always
FAIL_ONCE = HESITANT + COLD + GREYLISTED
FAIL_ALWAYS = UNKNOWN + TORN

COLOURS = {
    "amber": "#d9920b", "black": "#1d1d1f", "blue": "#2d5fa8", "copper": "#b3673a",
    "green": "#3f7d4e", "grey": "#82868b", "ivory": "#efe8d2", "pink": "#d98aa4",
    "red": "#b2323a", "white": "#f5f5f2",
}  # fmt: skip
THINGS = (
    "basket", "bench", "bowl", "candle", "chair", "clock", "cushion", "desk", "jug", "kettle",
    "lamp", "mirror", "mug", "plate", "rug", "shelf", "stool", "table", "tray", "vase",
)  # fmt: skip
SUPPLIERS = ("Halden", "Lindqvist", "Moreau", "Okafor")
FIRST_NAMES = ("Ada", "Bram", "Chloe", "Dilan", "Ewa", "Femi", "Greta", "Hugo", "Ines", "Jonas")
LAST_NAMES = ("Berg", "Costa", "Duarte", "Evans", "Fischer", "Garcia", "Haas", "Ito", "Jensen")


class ProductRow(NamedTuple):
    """A line of the catalogue; like all rows here it is text, as a CSV is."""

    sku: str
    name: str
    price: str


class PriceRow(NamedTuple):
    """A line of the price list."""

    line: str
    sku: str
    price: str
    supplier: str


class OrderRow(NamedTuple):
    """One order, of one product."""

    number: str
    customer: str
    email: str
    sku: str
    quantity: str


class PhotoRow(NamedTuple):
    """One photo, and the archive's shelf that it is on."""

    name: str
    caption: str
    shelf: str


def products(seed: int) -> list[ProductRow]:
    """Make the catalogue."""
    random = stream(seed, "products")
    names = [f"{colour} {thing}" for thing in THINGS for colour in COLOURS]
    return [
        ProductRow(f"P-{number:03}", name.capitalize(), price(random))
        for number, name in enumerate(names, start=1)
    ]


def price_changes(seed: int) -> list[PriceRow]:
    """Make the price list, in which every product comes about fifteen times."""
    random = stream(seed, "prices")
    lines = range(1, PRICE_CHANGES + 1)
    unlucky = random.sample(lines, UNKNOWN + HESITANT)
    unknown, hesitant = set(unlucky[:UNKNOWN]), set(unlucky[UNKNOWN:])
    return [
        PriceRow(
            line=str(line),
            sku=f"X-{line:04}" if line in unknown else f"P-{random.randint(1, PRODUCTS):03}",
            price=price(random),
            supplier=outside.HESITANT_SUPPLIER if line in hesitant else random.choice(SUPPLIERS),
        )
        for line in lines
    ]


def orders(seed: int) -> list[OrderRow]:
    """Make the orders."""
    random = stream(seed, "orders")
    greylisted = set(random.sample(range(ORDERS), GREYLISTED))
    return [order(random, index, greylisted=index in greylisted) for index in range(ORDERS)]


def order(random: Random, index: int, *, greylisted: bool) -> OrderRow:
    """Make one order; its customer's server may be one that greylists."""
    first, last = random.choice(FIRST_NAMES), random.choice(LAST_NAMES)
    domain = outside.GREYLISTING_DOMAIN if greylisted else "mail.example"
    return OrderRow(
        number=f"S-{1001 + index}",
        customer=f"{first} {last}",
        email=f"{first}.{last}.{index}@{domain}".lower(),
        sku=f"P-{random.randint(1, PRODUCTS):03}",
        quantity=str(random.randint(1, 6)),
    )


def photos(seed: int) -> list[PhotoRow]:
    """Make the list of photos; a few of them are on the cold shelf."""
    cold = unlucky_photos(seed)[TORN:]
    return [
        PhotoRow(f"{row.sku}.jpg", row.name, outside.COLD_SHELF if index in cold else "warm")
        for index, row in enumerate(products(seed)[: PHOTOS * 5 : 5])
    ]


def torn_photos(seed: int) -> set[str]:
    """Name the photos whose files end in the middle."""
    rows = photos(seed)
    return {rows[index].name for index in unlucky_photos(seed)[:TORN]}


def unlucky_photos(seed: int) -> list[int]:
    """Pick the photos that will fail: the torn ones, then the cold ones."""
    return stream(seed, "photos").sample(range(PHOTOS), TORN + COLD)


def draw(row: PhotoRow, seed: int) -> bytes:
    """Draw a photo of 1600 x 1200 pixels: a round thing on a table, before a wall."""
    random = stream(seed, row.name)
    wall, table = colour(random), colour(random)
    photo = ImageOps.colorize(Image.linear_gradient("L").resize((1600, 1200)), wall, table)
    pen = ImageDraw.Draw(photo)
    radius = random.randint(200, 320)
    thing = COLOURS[row.caption.split()[0].lower()]
    pen.rectangle((0, 820, 1600, 1200), fill=table)
    pen.ellipse((800 - radius, 840 - 2 * radius, 800 + radius, 840), fill=thing)
    pen.text((80, 980), row.caption, font=ImageFont.load_default(size=96), fill="white")
    file = BytesIO()
    photo.save(file, format="JPEG", quality=85)
    return file.getvalue()


def colour(random: Random) -> str:
    """Pick a colour as Pillow names it."""
    return f"hsl({random.randrange(360)}, 60%, {random.randint(25, 65)}%)"


def price(random: Random) -> str:
    """Pick a price between 1.00 and 250.00."""
    return str(Decimal(random.randint(100, 25_000)).scaleb(-2))


def stream(seed: int, name: str) -> Random:
    """Return random numbers for one file; a change to it leaves the others alone."""
    return Random(f"{seed} {name}")
