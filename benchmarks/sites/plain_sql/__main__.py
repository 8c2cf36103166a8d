"""drain BATCH | listen | enqueue COUNT SEED"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg

from benchmarks.sites import clocked
from benchmarks.sites.plain_sql import statements

NAP = 0.005  # seconds between two looks at an empty table


def connect() -> psycopg.Connection[Any]:
    """Connect and set what the worker's connection of django_jobs sets."""
    url = os.environ["BENCH_DATABASE"]
    connection = psycopg.connect(url, autocommit=True, application_name="plain_sql")
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute("SET jit = off")
    return connection


class Hand:
    """Claims and settles over one connection."""

    def __init__(self) -> None:
        self.connection = connect()
        self._claim = statements.load("claim")
        self._settle = statements.load("settle")
        self.connection.execute(statements.load("beat"), statements.BEAT)

    def claim(self, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of claimed jobs."""
        rows = self.connection.execute(self._claim, params, prepare=True).fetchall()
        return [row for row in rows if row[statements.LEASE_COLUMN] is not None]

    def settle(self, claimed: list[tuple[Any, ...]], result: str = "null") -> None:
        """Write that they succeeded; complain when one did not."""
        params = statements.settle_of(claimed, result)
        answers = self.connection.execute(self._settle, params, prepare=True).fetchall()
        assert all(answer == "settled" for _, answer, *_ in answers)


def noop() -> None:
    """Do nothing."""


def drain(batch: int) -> None:
    """Claim and settle until ended."""
    hand = Hand()
    params = statements.claim_of(batch)
    while True:
        claimed = hand.claim(params)
        for _ in claimed:
            noop()
        if claimed:
            hand.settle(claimed)
        else:
            time.sleep(NAP)


def listen() -> None:
    """Claim one job for each bell and write when the claim's answer was here.

    The bell has a connection of its own: on one that also claims, psycopg may read it while it
    waits for an answer.
    """
    hand, ear = Hand(), connect()
    params = statements.claim_of(1)
    ear.execute("LISTEN plain")
    for _ in ear.notifies():
        claimed = hand.claim(params)
        now = time.time()
        if claimed:
            hand.settle(claimed, json.dumps(now))


def enqueue(count: int, seed: int) -> None:
    """Insert at random moments."""
    connection = connect()

    def insert() -> str:
        [(job, _)] = connection.execute(statements.INSERT, prepare=True).fetchall()
        return str(job)

    clocked.run(insert, count=count, seed=seed)


if __name__ == "__main__":
    verbs: dict[str, Callable[..., None]] = {"drain": drain, "listen": listen, "enqueue": enqueue}
    verbs[sys.argv[1]](*map(int, sys.argv[2:]))
