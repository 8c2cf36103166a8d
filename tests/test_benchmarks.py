"""The arithmetic of the benchmarks, and that they still fit the statements they send."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import django_jobs.sql
from benchmarks import pages
from benchmarks.__main__ import arguments
from benchmarks.cases.beside import Beside, Load
from benchmarks.environment import Environment
from benchmarks.figures import Target, middle, percentile, spread
from benchmarks.measure import Bench, Sizes
from benchmarks.report import Report, Row
from benchmarks.server import statements
from benchmarks.sites import clocked
from benchmarks.sites.plain_sql import statements as plain
from benchmarks.systems import NAMES, ours, systems
from benchmarks.systems.tasks_db import TasksDB
from tests.processes import ROOT

PARAMETER = re.compile(r"%\((\w+)\)s")


def test_a_percentile_is_a_value_that_was_measured():
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert (3.0, 5.0, 1.0) == tuple(percentile(values, percent) for percent in (50, 95, 0))
    assert 7.0 == percentile([7.0], 50)
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 50)


def test_the_spread_is_relative_to_the_median():
    assert 2.0 == middle([1, 2, 9])
    assert 4.0 == spread([1, 2, 9])


@pytest.mark.parametrize(
    ("bound", "figure", "met"),
    [
        ("at least", 10.0, True),
        ("at least", 9.99, False),
        ("at most", 10.0, True),
        ("at most", 10.01, False),
        ("at most", float("nan"), False),
    ],
)
def test_a_target_is_met_at_its_limit_and_not_beyond(bound, figure, met):
    target = Target("something", bound, 10, figure)
    assert met is target.met
    assert ("met" if met else "MISSED") == str(target).partition(":")[0]


def report() -> Report:
    return Report(command="a test", options={}, server={}, versions={"ours": {"Django": "6.1"}})


def test_a_report_is_met_only_when_every_target_is():
    found = report()
    assert found.met
    found.targets += [Target("one", "at least", 1, 2), Target("two", "at most", 1, 2)]
    assert not found.met


def test_a_report_says_the_same_in_json_in_markdown_and_in_its_table(tmp_path):
    found = report()
    found.rows.append(Row("drain", "ours", "jobs/s", [9_000.0, 10_000.0], 9_500.0))
    found.targets.append(Target("drain: ours / theirs", "at least", 10, 9))
    found.write(tmp_path)
    as_json = json.loads((tmp_path / "report.json").read_text())
    assert [9_500.0] == [row["median"] for row in as_json["rows"]]
    assert [False] == [target["met"] for target in as_json["targets"]]
    as_text = (tmp_path / "report.md").read_text()
    assert "| drain | ours | 9,500 | jobs/s | 11% | 9,000 10,000 |" in as_text
    assert "| drain: ours / theirs | at least 10 | 9 | **no** |" in as_text
    assert "MISSED: drain: ours / theirs: 9 (at least 10)" in found.table()


def test_a_ratio_is_the_median_of_each_repetitions_own():
    found = report()
    bench = Bench([], Sizes(), [50], found)
    # the machine was three times slower in the second repetition
    figures = {"ours": [300.0, 100.0, 330.0], "plain_sql": [600.0, 200.0, 600.0]}
    bench._ratio("drain", "at least", 0.25, figures, "plain_sql")
    bench._ratio("drain", "at least", 10, figures, "tasks_db")  # was not measured: no verdict
    assert [0.5] == [target.figure for target in found.targets]


def test_the_systems_take_turns_and_each_is_first_as_often():
    bench = Bench(systems(), Sizes(repetitions=3), [50], report())
    order = [system.name for _, system in bench._turns()]
    assert [*NAMES, *NAMES[1:], NAMES[0], NAMES[2], *NAMES[:2]] == order


def test_statements_are_counted_from_both_protocols_and_only_those_of_others(tmp_path):
    log = tmp_path / "server.log"
    log.write_text(
        "2026-01-01 00:00:00.000 UTC|jobworker loop|bench_1|LOG:  execute _pg3_1: WITH me AS (\n"
        "\tSELECT 1)\n"
        "2026-01-01 00:00:00.001 UTC|jobworker loop|bench_1|DETAIL:  Parameters: $1 = '1'\n"
        "2026-01-01 00:00:00.002 UTC|jobworker renewer|bench_1|LOG:  statement: BEGIN\n"
        "2026-01-01 00:00:00.003 UTC|benchmarks|bench_1|LOG:  statement: SELECT 1\n"
        "2026-01-01 00:00:00.004 UTC|jobworker loop|bench_2|LOG:  statement: SELECT 1\n"
        "2026-01-01 00:00:00.005 UTC|||LOG:  checkpoint starting: time\n"
    )
    assert ["jobworker loop", "jobworker renewer"] == statements(log, dbname="bench_1")
    start = log.read_text().index("2026-01-01 00:00:00.002")
    assert ["jobworker renewer"] == statements(log, dbname="bench_1", start=start)


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the statements of the package under test, which may be an installed one."""
    monkeypatch.setattr(plain, "SQL", Path(django_jobs.sql.__file__).parent)


@pytest.mark.usefixtures("shipped")
def test_plain_sql_gives_the_shipped_statements_what_they_ask_for():
    claimed: list[tuple[Any, ...]] = [(True, 1, 0, 0, 0, 0, [], 0.0, 7, 8)]
    given = {
        "beat": plain.BEAT,
        "claim": plain.claim_of(50),
        "settle": plain.settle_of(claimed, "null"),
    }
    for name, params in given.items():
        assert set(PARAMETER.findall(plain.load(name))) == set(params), name
    assert ([7], [8]) == (given["settle"]["leases"], given["settle"]["jobs"])


@pytest.mark.usefixtures("shipped")
def test_plain_sql_finds_lease_and_job_where_the_claim_returns_them():
    text = re.sub(r"--.*", "", plain.load("claim"))
    select = text.rpartition("\nSELECT ")[2].partition("\nFROM ")[0]
    columns = [column.strip() for column in select.split(",")]
    places = columns.index("l.id"), columns.index("m.id")
    assert (plain.LEASE_COLUMN, plain.JOB_COLUMN) == places


def test_every_system_is_enqueued_to_at_the_same_moments():
    gaps = list(clocked.gaps(200, seed=3))
    assert gaps == list(clocked.gaps(200, seed=3))
    assert 0.05 <= min(gaps)
    assert max(gaps) <= 0.15


def test_each_setting_of_the_peer_says_what_it_is():
    settings = {TasksDB(persistent=persistent).setting() for persistent in (True, False)}
    assert {
        "CONN_MAX_AGE = None, --interval 0, --queue-name '*', --verbosity 0",
        "CONN_MAX_AGE = 0, --interval 0, --queue-name '*', --verbosity 0",
    } == settings


class Here(Environment):
    """The interpreter of the tests, which has the package under test."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)


@pytest.mark.slow
@pytest.mark.subprocess
def test_jobs_are_drained_beside_ballast_that_nobody_touches():
    found = report()
    kinds = ["unplaceable", "paused", "blocked"]
    load = Load(kinds=kinds, rows=2_000, jobs=500, enqueues=20, repetitions=1)
    Beside(load, found, system=replace(ours.SYSTEM, environment=Here("here", ()))).run()
    assert ["without ballast", "with ballast"] * 3 == [row.system for row in found.rows]
    assert all(0 < row.median for row in found.rows)
    assert [0.9, 0.9, 0.9] == [target.limit for target in found.targets]


def test_ballast_is_named_and_counted_on_the_command_line(capsys):
    given = arguments(["--ballast", "paused,finished", "--rows", "7"])
    assert (["paused", "finished"], 7) == (given.ballast, given.rows)
    assert (False, 1_000_000) == (bool(arguments([]).ballast), arguments([]).rows)
    with pytest.raises(SystemExit):
        arguments(["--ballast", "lead"])
    assert "'lead' is none of" in capsys.readouterr().err


def test_an_unknown_case_is_refused(capsys):
    assert ["drain"] == arguments(["--cases", "drain"]).cases
    with pytest.raises(SystemExit):
        arguments(["--cases", "drian"])
    assert "'drian' is none of" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.subprocess
def test_every_page_of_the_admin_is_timed():
    words = [sys.executable, "-m", "benchmarks.pages", "--rows", "300"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    told = ended.stdout.splitlines()[-1]
    found = re.fullmatch(r"(met|MISSED): the slowest of (\d+) pages beside 300 ended .*", told)
    assert found, ended.stderr
    assert int(found[2]) > 60
    assert ended.returncode == (found[1] != "met")


def test_pages_are_told_apart_by_view_and_query():
    text = '<a href="?p=3">3</a><a href="/admin/auth/">no</a><a name="a"><a href="?a=1&b=2">no</a>'
    assert [f"{pages.START}job/?p=3"] == list(pages.links(f"{pages.START}job/", text))
    jobs = [
        pages.kind(f"{pages.START}job/{end}") for end in ("1/change/", "2/change/", "", "?p=2")
    ]
    assert jobs[0] == jobs[1]
    assert 3 == len(set(jobs))
    assert pages.kind(f"{pages.START}job/?p=9") != pages.kind(f"{pages.START}job/?p=10")
