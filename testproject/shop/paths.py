"""Where the shop's files are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Folder:
    """The names of everything that the shop reads and writes, below one folder."""

    root: Path

    @property
    def products(self) -> Path:
        """The catalogue."""
        return self.root / "products.csv"

    @property
    def prices(self) -> Path:
        """The price list: one change a line, and the last line of a product counts."""
        return self.root / "prices.csv"

    @property
    def orders(self) -> Path:
        """What was bought."""
        return self.root / "orders.csv"

    @property
    def photo_list(self) -> Path:
        """Which photos there are, and on which shelf."""
        return self.root / "photos.csv"

    @property
    def photos(self) -> Path:
        """The photos as they came."""
        return self.root / "photos"

    @property
    def thumbnails(self) -> Path:
        """The photos made small."""
        return self.root / "thumbnails"

    @property
    def mail(self) -> Path:
        """The receipts that were sent, each in a folder of its own."""
        return self.root / "mail"

    @property
    def worker_log(self) -> Path:
        """What the demonstration's worker says."""
        return self.root / "worker.log"


def folder() -> Folder:
    """Return the folder that ``SHOP_FOLDER`` names, or else ``var/shop``."""
    return Folder(Path(os.environ.get("SHOP_FOLDER") or PROJECT / "var" / "shop"))


def shown(path: Path) -> str:
    """Return a path as one would type it here."""
    return os.path.relpath(path)
