"""What every test may use, and what the whole suite must keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper

from testproject import postgres
from tests import backends
from tests.private_server import PrivateServers
from tests.processes import JobWorkers

# A busy machine is slow now and then; that is no fault of what is tested.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

LONG = ("test_plans", "test_soak", "test_tutorial", "test_migrations", "test_demo")
FORBIDDEN = ("skipped", "xfailed", "xpassed")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have PostgreSQL there, or say in one sentence that it is not."""
    if session.config.option.collectonly:
        return
    try:
        postgres.ensure_running()
    except postgres.ServerError as error:
        pytest.exit(str(error), returncode=3)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that left a test out."""
    if _fault(session.config, session.exitstatus):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(exitstatus: int, config: pytest.Config) -> None:
    """Say why, above pytest's own last line."""
    fault = _fault(config, exitstatus)
    if fault is not None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_sep("=", f"FAILED: {fault}", red=True)


def _fault(config: pytest.Config, exitstatus: int) -> str | None:
    """Tell why a run that looks green proves nothing."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    stats = reporter.stats if reporter else {}
    left_out = [f"{len(stats[name])} {name}" for name in FORBIDDEN if stats.get(name)]
    if left_out:
        return f"every test must run, but {', '.join(left_out)}"
    return "no test ran" if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: whatever is left at the end runs alone."""
    items.sort(key=lambda item: not (item.path.parent.name == "worker" or item.path.stem in LONG))


class Everything(set[Any]):
    """Holds whatever it is asked for."""

    def __contains__(self, _: object) -> bool:
        return True


@pytest.fixture(autouse=True)
def nothing_is_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no enqueue ask who serves its queue: a process asks once, so one test would differ."""
    monkeypatch.setattr("django_jobs.backend._FORESEEN", Everything())


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Let a lock that should have been skipped fail in seconds instead of hanging.

    It is more than the second after which autovacuum gives way to who waits for it.
    """
    for database in settings.DATABASES.values():
        options = database.setdefault("OPTIONS", {})
        options["options"] = f"{options.get('options', '')} -c lock_timeout=2500ms".strip()


@pytest.fixture
def second_connection(transactional_db: None) -> Iterator[BaseDatabaseWrapper]:
    """Another session on the test database, with transactions of its own."""
    with backends.opened() as connection:
        yield connection


@pytest.fixture
def bells(transactional_db: None) -> Iterator[Callable[[], list[str]]]:
    """Listen as a worker does; the value is a function that returns what rang."""
    with backends.opened() as connection:
        connection.ensure_connection()
        raw = connection.connection
        raw.execute("LISTEN django_jobs")
        yield lambda: [notice.payload for notice in raw.notifies(timeout=0.2)]


@pytest.fixture
def private_server() -> Iterator[Callable[..., postgres.PrivateServer]]:
    """Start servers of this test's own: it may stop, kill or freeze them."""
    with PrivateServers() as servers:
        yield servers.start


@pytest.fixture
def jobworker(transactional_db: None, tmp_path: Path) -> Iterator[JobWorkers]:
    """Start real ``manage.py jobworker`` processes on the test database."""
    with ExitStack() as stack:
        stack.callback(backends.end_others)  # last: the next test may lock every table
        yield stack.enter_context(JobWorkers(tmp_path))
