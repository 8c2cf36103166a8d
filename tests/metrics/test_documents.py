"""The reference, the dashboard and the alerts name the metrics that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest

from django_jobs.metrics import database, figures, runs, workers
from tests.metrics.promql import Query
from tests.test_docs import DOCS, blocks, first_column, rows, text_of, word

OF_SCRAPE = {"le", "instance"}  # labels that Prometheus or a histogram adds
GAUGES_OF_ALL = {  # each process tells the same
    *database.BY_QUEUE,
    *database.TOTALS,
    "django_jobs_scrape_ok",
    "django_jobs_scrape_age_seconds",
}
RATES = {("rate",), ("increase",)}
RULES = DOCS / "monitoring" / "alerts.yaml"
DASHBOARD = DOCS / "monitoring" / "dashboard.json"


def labels() -> dict[str, set[str]]:
    """The labels of each metric by its name, as the code says them."""
    found: dict[str, set[str]] = {"django_jobs_worker_info": {"version"}}
    found |= {name: {"queue"} for name in database.BY_QUEUE}
    for counted in (runs.TOTAL, runs.RUN_SECONDS, runs.WAIT_SECONDS):
        [family] = counted.describe()
        name = family.name + ("_total" if family.type == "counter" else "")
        found[name] = set(counted._labelnames)
    for collector in (database.DATABASE, workers.WORKERS):
        for family in collector.describe():
            found.setdefault(family.name, set())
    return found


def series_names() -> dict[str, set[str]]:
    """The labels of each series that a scrape brings."""
    found = labels()
    for histogram in (runs.RUN_SECONDS, runs.WAIT_SECONDS):
        name = next(iter(histogram.describe())).name
        for part in ("bucket", "sum", "count"):
            found[f"{name}_{part}"] = found[name]
        del found[name]
    return found


def test_every_metric_stands_in_the_reference_with_its_labels():
    table = rows(text_of("reference/metrics.md"), "Metric")
    shown = {word(row[0]): set(re.findall(r"`(\w+)`", row[2])) for row in table}
    assert labels() == shown


def test_every_metric_has_a_unit():
    for name, unit, *_ in rows(text_of("reference/metrics.md"), "Metric"):
        assert unit, name
        assert (unit == "seconds") == word(name).endswith("_seconds"), name


def test_every_outcome_stands_in_the_reference():
    assert set(runs.OUTCOMES) == first_column("reference/metrics.md", "Outcome")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A count ends at {:,}", figures.COUNTED),
        ("the first {} jobs of each priority", figures.LOOKED),
        ("At most {} queues are told", figures.MOST_QUEUES),
        ("After {} queues a process counts", runs.MOST_QUEUES),
        ("serves all scrapes for {:.0f} seconds", figures.FRESH_SECONDS),
        ("waits at most {} seconds for the database", database.PATIENCE_SECONDS),
    ],
)
def test_bounds_in_the_reference_are_those_of_the_code(text: str, value: float):
    assert text.format(value) in text_of("reference/metrics.md")


# Queries


def of_dashboard() -> Iterable[str]:
    board: Any = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m")


def of_rules() -> Iterable[str]:
    text = RULES.read_text()
    assert text.count("- alert: ") == text.count("expr: ")
    for expr in re.findall(r"^ +expr: (?:>-\n)?((?:.+\n)(?: {10}\S.*\n)*)", text, re.MULTILINE):
        yield " ".join(expr.split())


def of_pages() -> Iterable[str]:
    page = text_of("how-to/scale-by-depth.md")
    yield from blocks(page, "promql")
    yield from re.findall(r"^ +query: (.+)$", page, re.MULTILINE)


QUERIES = [*of_dashboard(), *of_rules(), *of_pages()]


def test_there_are_queries_to_be_judged():
    assert 20 < len([*of_dashboard()])
    assert 11 == len([*of_rules()])
    assert 3 == len([*of_pages()])


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_names_metrics_and_labels_that_there_are(text: str):
    known = series_names()
    found = Query(text).found
    assert found
    for each in found:
        assert each.metric in known, text
        assert each.matched | each.by <= known[each.metric] | OF_SCRAPE, text


@pytest.mark.parametrize("text", QUERIES)
def test_what_each_process_tells_alike_is_never_summed_up(text: str):
    for each in Query(text).found:
        if each.metric in GAUGES_OF_ALL:
            innermost = [name for name in each.within if name in {"max", "min", "sum"}]
            assert innermost, f"{each.metric} has a value for each process in {text}"
            assert innermost[-1] != "sum", f"{each.metric} is the same in each process: {text}"


@pytest.mark.parametrize("text", QUERIES)
def test_what_only_grows_is_looked_at_over_a_span(text: str):
    growing = ("_total", "_bucket", "_sum", "_count")
    for each in Query(text).found:
        assert each.metric.endswith(growing) == each.ranged == (each.within[-1:] in RATES), text


@pytest.mark.parametrize("text", QUERIES)
def test_outcomes_that_are_asked_for_are_outcomes(text: str):
    for said in re.findall(r'outcome=~?"([^"]*)"', text):
        assert set(said.split("|")) <= set(runs.OUTCOMES), text


@pytest.mark.parametrize(
    "text",
    ["max(", "max by queue (a)", "rate(a[5m)", "a b", "median(a)", 'a{queue~"x"}', "", "1 +"],
)
def test_what_is_no_query_is_refused(text: str):
    with pytest.raises(SyntaxError):
        Query(text)


def test_the_dashboard_asks_for_the_labels_that_there_are():
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    [query] = [each["query"] for each in variables if each["name"] == "queue"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()  # type: ignore[union-attr]
    assert label in labels()[metric]
