"""The shop's own pages in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from testproject.shop.models import Order, Product

if TYPE_CHECKING:
    ProductBase = admin.ModelAdmin[Product]
    OrderBase = admin.ModelAdmin[Order]
else:  # Django's own classes take no parameters when the program runs
    ProductBase = OrderBase = admin.ModelAdmin


@admin.register(Product)
class ProductAdmin(ProductBase):
    """Products with the line of the price list that set their price."""

    list_display = ("sku", "name", "price", "price_line")
    search_fields = ("sku", "name")
    ordering = ("sku",)


@admin.register(Order)
class OrderAdmin(OrderBase):
    """Orders, and when their receipts went out."""

    list_display = ("number", "customer", "total", "receipt_sent_at")
    list_select_related = ("product",)
    search_fields = ("number", "customer", "email")
    ordering = ("number",)
