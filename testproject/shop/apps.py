"""The shop as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Names the app."""

    name = "testproject.shop"
    verbose_name = "Shop"
    default_auto_field = "django.db.models.BigAutoField"
