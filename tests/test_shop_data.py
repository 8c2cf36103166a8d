"""The shop's sample data, and how its files become rows and jobs."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from smtplib import SMTPResponseException
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from django_jobs.models import Event, Job, Lease
from testproject.shop import intake, outside, sample
from testproject.shop.models import Order, Product
from testproject.shop.paths import Folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Let the shop keep its files in a folder of this test."""
    monkeypatch.setenv("SHOP_FOLDER", str(tmp_path / "shop"))
    return Folder(tmp_path / "shop")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sample be small, but for the calls that fail."""
    for name, number in {"PRICE_CHANGES": 60, "ORDERS": 12, "PHOTOS": 7}.items():
        monkeypatch.setattr(sample, name, number)


def files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below ``folder``."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


# The data


def test_the_same_seed_writes_the_same_files(place, tmp_path, monkeypatch, small):
    call_command("shop_data", seed=7, stdout=io.StringIO())
    monkeypatch.setenv("SHOP_FOLDER", str(tmp_path / "again"))
    call_command("shop_data", seed=7, stdout=io.StringIO())

    written = files(place.root)

    assert 4 + 7 == len(written)
    assert written == files(tmp_path / "again")


def test_another_seed_writes_another_price_list():
    assert sample.price_changes(1) != sample.price_changes(2)


def test_the_sample_is_as_large_as_the_demonstration_says():
    assert 3_000 == len(sample.price_changes(sample.SEED))
    assert 40 == len(sample.photos(sample.SEED))
    assert 300 == len(sample.orders(sample.SEED))
    assert (20, 5) == (sample.FAIL_ONCE, sample.FAIL_ALWAYS)


def fails(check: Any, *args: Any, attempt: int) -> bool:
    """Tell whether the outside world refuses a call."""
    try:
        check(*args, attempt=attempt)
    except (OSError, SMTPResponseException):
        return True
    return False


@pytest.mark.parametrize(("attempt", "failures"), [(1, 20), (2, 0)])
def test_twenty_calls_are_refused_outside_and_only_on_their_first_attempt(attempt, failures):
    seed = sample.SEED
    refused = [
        *(fails(outside.confirm_price, row.supplier, attempt=attempt)
          for row in sample.price_changes(seed)),
        *(fails(outside.fetch_photo, row.name, row.shelf, attempt=attempt)
          for row in sample.photos(seed)),
        *(fails(outside.accept_mail, row.email, attempt=attempt)
          for row in sample.orders(seed)),
    ]  # fmt: skip

    assert failures == sum(refused)


def test_five_calls_can_never_succeed_and_none_of_them_is_refused_first():
    seed = sample.SEED
    known = {row.sku for row in sample.products(seed)}
    unknown = [row for row in sample.price_changes(seed) if row.sku not in known]
    torn = [row for row in sample.photos(seed) if row.name in sample.torn_photos(seed)]

    assert (3, 2) == (len(unknown), len(torn))
    assert outside.HESITANT_SUPPLIER not in {row.supplier for row in unknown}
    assert {"warm"} == {row.shelf for row in torn}


# The intake


@pytest.fixture
def written(place: Folder, small: None) -> Folder:
    """Write the small sample."""
    call_command("shop_data", stdout=io.StringIO())
    return place


@pytest.mark.django_db
def test_the_intake_enqueues_a_job_for_each_line_in_its_queue(written):
    batch = intake.take_in(written)

    assert {"imports": 60, "photos": 7, "mail": 12} == batch.asked
    for queue, ids in batch.ids.items():
        assert list(ids) == list(
            Job.objects.in_queue(queue).order_by("pk").values_list("pk", flat=True)
        )


@pytest.mark.django_db
def test_a_second_intake_begins_without_a_trace_of_the_first(written):
    first = intake.take_in(written)
    job = first.all_ids[0]
    Event.objects.create(job_id=job, kind=Event.Kind.FAILED, attempt=1, life=1)
    Lease.objects.create(job_id=job, worker="0" * 32, expires_at=Now())
    written.mail.mkdir()

    intake.clear(written)

    left = [model.objects.exists() for model in (Job, Lease, Event, Product, Order)]
    assert [False] * 5 == left
    assert not written.mail.exists()
    intake.take_in(written)


@pytest.mark.django_db
def test_the_jobs_of_others_survive_a_second_intake(written):
    Job.objects.create(task="theirs.tasks.work")

    intake.clear(written)

    assert ["theirs.tasks.work"] == list(Job.objects.values_list("task", flat=True))


def test_the_last_price_of_a_product_is_that_of_its_last_line(place):
    place.root.mkdir()
    place.products.write_text("sku,name,price\nP-1,Mug,1.00\nP-2,Jug,2.00\n")
    place.prices.write_text(
        "line,sku,price,supplier\n1,P-1,3.00,Okafor\n2,X-1,9.00,Okafor\n3,P-1,2.50,Okafor\n",
    )

    assert {"P-1": Decimal("2.50"), "P-2": Decimal("2.00")} == intake.last_prices(place)
