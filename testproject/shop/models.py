"""What the shop sells, and who bought it."""

from __future__ import annotations

from django.db import models


class Product(models.Model):
    """Something on the shelf."""

    sku = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=9, decimal_places=2)
    price_line = models.PositiveIntegerField(
        default=0,
        help_text="The line of the price list that set the price; a later line wins.",
    )

    def __str__(self) -> str:
        """Name the product."""
        return f"{self.name} ({self.sku})"


class Order(models.Model):
    """What one customer bought, at the price of that day."""

    number = models.CharField(max_length=20, unique=True)
    customer = models.CharField(max_length=100)
    email = models.EmailField()
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField()
    total = models.DecimalField(max_digits=9, decimal_places=2)
    receipt_sent_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        """Name the order as the customer knows it."""
        return f"order {self.number}"
