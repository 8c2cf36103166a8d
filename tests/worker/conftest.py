"""Servers, proxies and fleets for the tests of the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testproject.postgres import PrivateServer
from tests.processes import JobWorkers
from tests.proxy import Proxy
from tests.worker.fleet import Fleet, flag_files, migrated
from tests.worker.gates import begun, gate, seen


@pytest.fixture(scope="session")
def fleet_server() -> Iterator[PrivateServer]:
    """A server that tests stop and start, frozen or not; made once."""
    with PrivateServer(tcp=True, settings={"fsync": "off"}) as server:
        yield migrated(server)


@pytest.fixture
def shut_gate() -> Iterator[None]:
    """Shut the gate at which tasks wait; at the end nobody is left there."""
    begun.clear()
    seen.clear()
    gate.renew()
    yield
    if gate.locked():
        gate.release()


@pytest.fixture
def fleet(fleet_server: PrivateServer, tmp_path: Path) -> Iterator[Fleet]:
    """Workers on a server of their own, with empty tables."""
    with ExitStack() as stack:
        processes = stack.enter_context(JobWorkers(tmp_path))
        fleet = Fleet(fleet_server, processes)
        stack.callback(fleet.close)
        fleet.clear()
        yield fleet


@pytest.fixture
def proxy(fleet_server: PrivateServer) -> Iterator[Proxy]:
    """A proxy before the fleet's server."""
    with Proxy(fleet_server.port) as proxy:
        yield proxy


@pytest.fixture
def end(tmp_path: Path) -> Callable[[], Path]:
    """Make names of files that tell running tasks to end."""
    names = flag_files(tmp_path)
    return lambda: next(names)
