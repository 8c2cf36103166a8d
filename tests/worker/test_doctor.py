"""``jobs doctor`` on a site that works, on a server that no other test disturbs."""

from __future__ import annotations

import pytest

from tests.worker.fleet import Fleet

pytestmark = pytest.mark.subprocess


def test_a_site_that_is_in_order_has_nothing_but_ok_and_ends_with_0(fleet: Fleet):
    fleet.put("tests.worker.tasks.span", 0)
    fleet.idle()
    doctor = fleet.command("jobs", "doctor")
    assert 0 == doctor.wait(), doctor.log()
    assert doctor.log().splitlines()[-1].startswith("Errors: 0, warnings: 0, ok: "), doctor.log()
    for name in ("migrations", "database", "clock", "indexes", "autovacuum", "queues", "limits"):
        assert f"\nok       {name} " in f"\n{doctor.log()}"
