"""The suite itself: a run that left a test out is not green."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAD = "import pytest\n\ndef test_runs():\n    assert True\n"


def run_suite(folder: Path, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on one file under this suite's own conftest."""
    file = folder / "test_made_up.py"
    file.write_text(HEAD + source)
    suite = ["-m", "pytest", "-p", "tests.conftest", "-c", "pyproject.toml", "--rootdir", "."]
    return subprocess.run(
        [sys.executable, *suite, str(file), *words],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.subprocess
def test_the_browser_is_left_to_make_browser():
    """All else that is in tests/ is put aside here, so nothing may be left to collect."""
    aside = ["--ignore-glob=tests/test_*.py", "--ignore-glob=tests/[!b]*/*"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *aside],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert pytest.ExitCode.NO_TESTS_COLLECTED == result.returncode, result.stdout
    assert "pytest tests/browser" in (ROOT / "Makefile").read_text()


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("source", "words", "status", "said"),
    [
        pytest.param("", (), 0, "1 passed", id="green"),
        pytest.param("", ("-k", "nothing"), 5, "FAILED: no test ran", id="empty"),
        pytest.param(
            "@pytest.mark.skip\ndef test_left_out(): ...\n", (), 1, "but 1 skipped", id="skipped"
        ),
        pytest.param(
            "@pytest.mark.skip\ndef test_left_out(): ...\n",
            ("--numprocesses=2",),
            1,
            "but 1 skipped",
            id="skipped in one of several processes",
        ),
        pytest.param("", ("-n2", "-k", "nothing"), 5, "FAILED: no test ran", id="empty in all"),
        pytest.param(
            "@pytest.mark.xfail\ndef test_expected(): assert False\n",
            (),
            1,
            "but 1 xfailed",
            id="xfailed",
        ),
    ],
)
def test_run_that_left_a_test_out_fails(
    tmp_path: Path, source: str, words: tuple[str, ...], status: int, said: str
):
    result = run_suite(tmp_path, source, *words)
    assert status == result.returncode, result.stdout
    assert said in result.stdout


def test_tests_look_at_sessions_of_their_own_database_only():
    """The processes of a run share a server, whose views show the sessions of all databases."""
    own = re.compile(r"\bdatname\b|\bpid = |pg_blocking_pids|pg_backend_pid\(\) AND mode")
    asked = [
        (path, text)
        for path in (ROOT / "tests").rglob("*.py")
        for text in _texts(ast.parse(path.read_text()))
        if re.search(r"(FROM|JOIN)\s+pg_(stat_activity|locks)\b", text)
    ]
    assert len(asked) > 15
    assert [] == [(path.name, text) for path, text in asked if not own.search(text)]


def _texts(tree: ast.AST) -> list[str]:
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [value for value in constants if isinstance(value, str)]
