"""The world outside the shop, which fails as the real one does.

It plays a supplier, a photo archive and a mail server, so that there is something to retry.
The data alone decides which calls fail: the same input fails in the same places every time.
"""

from __future__ import annotations

from smtplib import SMTPResponseException

HESITANT_SUPPLIER = "Nordlys"
COLD_SHELF = "cold"
GREYLISTING_DOMAIN = "greylist.example"


def confirm_price(supplier: str, *, attempt: int) -> None:
    """Ask the supplier whether a price is meant; one hangs up on the first call."""
    if supplier == HESITANT_SUPPLIER and attempt == 1:
        raise ConnectionResetError(f"{supplier} hung up; it usually answers the second call")


def fetch_photo(name: str, shelf: str, *, attempt: int) -> None:
    """Have the archive bring a photo; from the cold shelf that takes a while."""
    if shelf == COLD_SHELF and attempt == 1:
        raise TimeoutError(f"{name} is still on its way from the {shelf} shelf")


def accept_mail(address: str, *, attempt: int) -> None:
    """Hand a mail to the customer's server; a greylisting one first says "later"."""
    if address.endswith(f"@{GREYLISTING_DOMAIN}") and attempt == 1:
        raise SMTPResponseException(450, f"{address} is greylisted, try again in a moment")
