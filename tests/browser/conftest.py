"""A browser, somebody who is logged in, and a page that must stay without faults.

Debian's own chromium is driven, so nothing is downloaded but Playwright itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser.tab import Tab
from tests.processes import JobWorkers

MISSING = (
    "The browser tests need chromium: install it (Debian: apt-get install chromium), or name "
    "one in the environment variable CHROMIUM."
)
UNSAFE = "DJANGO_ALLOW_ASYNC_UNSAFE"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program, or the end of the run in one sentence."""
    found = shutil.which(os.environ.get("CHROMIUM") or "chromium")
    if found is None:
        pytest.exit(MISSING, returncode=3)
    return found


@pytest.fixture(scope="session")
def browser(chromium: str, django_db_setup: None) -> Iterator[Browser]:
    """One browser for all tests; each has a context, so cookies, of its own.

    Playwright's event loop stands in this thread, and Django would refuse the ORM beside it.
    It moves only inside calls of Playwright, so no query is ever made by a coroutine.
    The test database is there before, so it is dropped when nobody can ask for a page.
    """
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        environment.setenv(UNSAFE, "1")
        browser = playwright.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Browser, live_server, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """An anonymous user's tab at the live server; a fault in its console fails the test."""
    context = browser.new_context(base_url=live_server.url, reduced_motion="reduce")
    context.set_default_timeout(10_000)
    with context:
        tab = Tab(context.new_page(), name=request.node.name)
        yield tab
        tab.check_faults()


@pytest.fixture
def admin(transactional_db: None) -> User:
    """A superuser, whose password is ``secret``."""
    return User.objects.create_superuser("ana", password="secret")


@pytest.fixture
def desk(tab: Tab, admin: User, live_server) -> Tab:
    """The tab of somebody who is logged in."""
    client = Client()
    client.force_login(admin)
    take_session(tab.page.context, client, live_server.url)
    return tab


def take_session(context: BrowserContext, client: Client, url: str) -> None:
    """Let the browser go on where a test client has logged in."""
    name = settings.SESSION_COOKIE_NAME
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": url}])


@pytest.fixture
def worker(jobworker: JobWorkers):
    """Start a real worker as ``jobworker`` does; it keeps Django's check of async safety."""
    return lambda *flags: jobworker(*flags, **{UNSAFE: ""})
