"""No decision is made by a host's clock: times come from the database."""

from __future__ import annotations

import ast
from pathlib import Path

import django_jobs

CLOCKS = {
    f"{owner}.{name}"
    for owner in ("time", "datetime", "date", "timezone")
    for name in ("time", "time_ns", "now", "utcnow", "today", "gmtime", "localtime")
} - {"timezone.localtime"}  # which says a time of the database in a zone
COMPARES = {"operations/doctor/server.py"}  # the clocks, which is no decision
PARTS = ("operations", "worker", "sql", "planner.py", "retries.py")


def names(path: Path) -> set[str]:
    """Every name with its owner that a module uses, or imports from a clock's module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            owner = node.value
            last = getattr(owner, "id", getattr(owner, "attr", ""))  # datetime.datetime.now
            found.add(f"{last}.{node.attr}")
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").rpartition(".")[2]
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def test_no_module_that_decides_reads_the_hosts_clock():
    root = Path(django_jobs.__file__).parent
    paths = [
        path for part in PARTS for path in [root / part, *sorted((root / part).rglob("*.py"))]
    ]
    read = {
        str(path.relative_to(root)): names(path) & CLOCKS for path in paths if path.suffix == ".py"
    }
    assert len(read) > 20
    assert {} == {name: found for name, found in read.items() if found and name not in COMPARES}


def test_no_statement_takes_the_time_of_its_transactions_start_or_of_a_host():
    root = Path(django_jobs.__file__).parent / "sql"
    texts = {path.name: path.read_text().lower() for path in root.glob("*.sql")}
    assert texts
    for name, text in texts.items():
        for word in ("now()", "current_timestamp", "localtimestamp"):
            assert word not in text, name
