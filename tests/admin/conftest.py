"""Users of the admin, by what they may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

MODELS = ("job", "activity", "queue", "worker", "skip", "limit", "schedule")


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """Log in a member of staff who has the named permissions of django_jobs."""

    def logged_in(*codenames: str, **options: Any) -> Client:
        user = User.objects.create_user(f"staff{User.objects.count()}", is_staff=True)
        wanted = Permission.objects.filter(
            content_type__app_label="django_jobs", codename__in=codenames
        )
        assert len(codenames) == len(wanted)
        user.user_permissions.set(wanted)
        client = Client(**options)
        client.force_login(user)
        return client

    return logged_in


@pytest.fixture
def viewer(staff: Callable[..., Client]) -> Client:
    """One who may look at everything, and no more."""
    return staff(*(f"view_{model}" for model in MODELS))


@pytest.fixture
def operator(staff: Callable[..., Client]) -> Client:
    """One who may look, and use every verb."""
    verbs = (
        "run_job", "cancel_job", "requeue_job", "purge_job", "pause_queue", "change_size_limit",
        "disable_schedule", "run_schedule",
    )  # fmt: skip
    return staff(*(f"view_{model}" for model in MODELS), *verbs)
