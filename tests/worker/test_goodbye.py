"""A worker's last word on itself is that it has stopped."""

from __future__ import annotations

import time
from typing import Any

import pytest

from django_jobs.conf import Options
from django_jobs.models import Worker as Row
from django_jobs.operations.renew import beat
from django_jobs.worker import Worker, renewer


@pytest.mark.django_db(transaction=True)
def test_a_heartbeat_under_way_does_not_overtake_the_goodbye(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(sign: Any, **options: Any) -> int:
        time.sleep(0.3)  # the sign was made while the worker ran
        return beat(sign, **options)

    monkeypatch.setattr(renewer, "beat", late)
    worker = Worker(Options("default"), once=True)
    assert 0 == worker.run()
    worker.join()
    assert ["stopped"] == list(Row.objects.values_list("state", flat=True))
