"""``python -m benchmarks.pages``: how long each page of the admin takes beside ended jobs.

From the app's index every link is followed, with its filters and orders, and each page is asked
for several times in this process. The median of each must be below 300 ms.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from html.parser import HTMLParser
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urljoin, urlsplit

from benchmarks.figures import Target, middle
from benchmarks.progress import say
from benchmarks.server import Connection, Server

if TYPE_CHECKING:  # Django's tests cannot be imported before it is set up
    from django.test import Client

START = "/admin/django_jobs/"
QUEUE = f"{START}queue/page/?"  # one queue is named by two words
LONGEST = 0.3  # seconds
REPETITIONS = 3
SHOWN = 10  # the slowest
# Most have succeeded; of every hundred three are dead and one each ended otherwise.
ENDED = """
    INSERT INTO django_jobs_job (task, queue, state, attempt, args, enqueued_at, started_at,
        finished_at, error, schedule, scheduled_for)
    SELECT 'shop.tasks.t' || n %% 40, (ARRAY['default', 'imports', 'photos', 'mail'])[n %% 4 + 1],
        CASE WHEN n %% 100 < 94 THEN 'succeeded' WHEN n %% 100 < 97 THEN 'dead'
             ELSE (ARRAY['cancelled', 'expired', 'dropped'])[n %% 100 - 96] END,
        1, '[17, "of a thousand"]', at - interval '9 s', at - interval '5 s', at,
        CASE WHEN n %% 100 BETWEEN 94 AND 96 THEN 'ValueError: ' || n %% 9 END,
        CASE WHEN n %% 10 = 0 THEN 'entry ' || n / 10 %% 100 END,
        CASE WHEN n %% 10 = 0 THEN at END
    FROM generate_series(1, %s) n, LATERAL (SELECT now() - (%s - n) * interval '1 s' AS at) _
"""
# What else an operator looks at: all of it small beside the history.
LIVE = """
    INSERT INTO django_jobs_job (task, queue, state, run_after, limit_key, limit_size)
    SELECT 'shop.tasks.t' || n % 40, (ARRAY['default', 'imports', 'photos', 'mail'])[n % 4 + 1],
        (ARRAY['ready', 'scheduled', 'blocked'])[n % 3 + 1],
        CASE WHEN n % 3 = 1 THEN now() + n * interval '1 min' END,
        CASE WHEN n % 3 = 2 THEN 'customer:' || n % 100 END, CASE WHEN n % 3 = 2 THEN 1 END
    FROM generate_series(1, 3000) n;
    INSERT INTO django_jobs_limit (key, size, in_use)
    SELECT 'customer:' || n, 1, 1 FROM generate_series(0, 99) n;
    INSERT INTO django_jobs_queue (backend, name)
    SELECT 'default', unnest(ARRAY['default', 'imports', 'photos', 'mail']);
    INSERT INTO django_jobs_placement (digest, labels)
    SELECT 'page ' || n, ARRAY['label ' || n] FROM generate_series(1, 20) n;
    INSERT INTO django_jobs_schedule (backend, name, task, schedule, timezone, digest, next_at)
    SELECT 'default', 'entry ' || n, 'shop.tasks.t1', '* * * * *', 'Europe/Rome', 'page ' || n,
        now() + n * interval '1 min'
    FROM generate_series(0, 99) n;
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, at, data)
    SELECT id, 'dead', 1, 1, finished_at, '{}' FROM django_jobs_job WHERE state = 'dead';
    ANALYZE
"""


class Links(HTMLParser):
    """The addresses that a page leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what can be followed without a click that changes something."""
        if tag == "a":
            self.found.extend(value for name, value in attrs if name == "href" and value)


def arguments(words: list[str]) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="jobs that have ended")
    return parser.parse_args(words)


def fill(connection: Connection, rows: int) -> None:
    """Make a site with a history."""
    connection.execute(ENDED, (rows, rows))
    for statement in LIVE.split(";"):
        connection.execute(statement.encode())


def kind(address: str) -> tuple[object, ...]:
    """Tell pages apart by their view and query; two jobs have one kind of page.

    Of the parts of a list one is looked at for each length of its number.
    """
    from django.urls import resolve

    parts = urlsplit(address)
    query = [(key, len(value) if key == "p" else value) for key, value in parse_qsl(parts.query)]
    return (resolve(parts.path).view_name, *query)


def links(address: str, text: str) -> Iterator[str]:
    """Yield the pages of the app that a page leads to; a list has one filter at most."""
    parser = Links()
    parser.feed(text)
    for link in parser.found:
        there = urljoin(address, link).partition("?_changelist_filters=")[0]
        is_narrow = len(parse_qsl(urlsplit(there).query)) > 1 and not there.startswith(QUEUE)
        if there.startswith(START) and not is_narrow:
            yield there


def timed(client: Client, address: str) -> tuple[str, float]:
    """Return what a page says and the seconds it took; raise when it does not answer."""
    before = perf_counter()
    response = client.get(address)
    seconds = perf_counter() - before
    if response.status_code not in (HTTPStatus.OK, HTTPStatus.FOUND):
        raise AssertionError(f"{address} answers {response.status_code}")
    return response.content.decode(), seconds


def crawl(client: Client) -> Iterator[tuple[str, float]]:
    """Yield every page with the median of its seconds."""
    queue, seen = [START], {kind(START)}
    for address in queue:  # it grows
        texts, spans = zip(*(timed(client, address) for _ in range(REPETITIONS)), strict=True)
        yield address, middle(spans)
        for link in links(address, texts[0]):
            if kind(link) not in seen:
                seen.add(kind(link))
                queue.append(link)


def main(words: list[str]) -> int:
    """Measure and print; return 1 when a page takes too long."""
    given = arguments(words)
    with Server() as server:
        dbname = server.create(name="pages")
        os.environ["DATABASE_URL"] = server.url(dbname)
        os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
        import django

        django.setup()
        from django.contrib.auth.models import User
        from django.core.management import call_command
        from django.db import connections
        from django.test import Client

        call_command("migrate", verbosity=0)
        say(f"preparing {given.rows:,} jobs that have ended")
        with server.connect(dbname) as connection:
            fill(connection, given.rows)
        client = Client()
        client.force_login(User.objects.create_superuser("ana"))
        say("following all links")
        found = sorted(crawl(client), key=lambda each: -each[1])
        connections.close_all()
    for address, seconds in found[:SHOWN]:
        print(f"{seconds * 1000:6.0f} ms {address}")
    name = f"the slowest of {len(found)} pages beside {given.rows:,} ended jobs, seconds"
    target = Target(name, "at most", LONGEST, found[0][1])
    print(target)
    return 0 if target.met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
