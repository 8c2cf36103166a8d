"""The README and the documentation tell the truth about the code as it is."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.core.management import get_commands
from django.core.management.base import BaseCommand
from django.test import override_settings

import django_jobs
from django_jobs import exponential, testing
from django_jobs.admin.verbs import VERBS
from django_jobs.conf import OPTION_NAMES, InvalidOption, Options, problems
from django_jobs.conf.options import FLAGS
from django_jobs.management.commands import jobworker
from django_jobs.models import Event, Job
from django_jobs.states import TRANSITIONS, JobState
from django_jobs.tasks import JobTask
from django_jobs.tasks.decorator import TaskOptions
from django_jobs.worker import stopping, watchdog
from django_jobs.worker.context import JobContext

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PACKAGE = Path(django_jobs.__path__[0])  # which may be a wheel's
README = ROOT / "README.md"
LEVELS = ("debug", "info", "warning", "error", "critical")
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
WRITTEN = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
SOURCES = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql")]


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[str]:
    """Return the code blocks in one of ``languages``."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [body for language, body in found if language in languages]


def prose_of(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def rows(text: str, first: str) -> list[list[str]]:
    """Return the cells of all tables whose heading begins with ``first``."""
    tables = [table.partition("\n\n")[0] for table in text.split(f"\n| {first} |")[1:]]
    lines = [line for table in tables for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def word(cell: str) -> str:
    """Return what stands in backticks at the beginning of a cell."""
    return cell.removeprefix("`").partition("`")[0]


def first_column(name: str, heading: str) -> set[str]:
    return {word(row[0]) for row in rows(text_of(name), heading)}


def code_of(suffix: str = "") -> str:
    return "\n".join(path.read_text() for path in SOURCES if path.name.endswith(suffix))


# README


def test_readme_has_at_most_120_lines():
    assert len(README.read_text().splitlines()) <= 120


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The README's Python by the comment on its first line, its tasks importable."""
    found = {}
    for block in blocks(README.read_text(), "python"):
        title, _, body = block.partition("\n")
        found[title.removeprefix("# ")] = body
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "tasks.py").write_text(found["orders/tasks.py"])
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] == "orders"]:
        del sys.modules[name]


@pytest.mark.django_db
def test_readme_code_enqueues_jobs_that_run(readme: dict[str, str]):
    names: dict[str, Any] = {}
    exec(readme["wherever orders are made"], names)
    testing.run_jobs()
    names["result"].refresh()
    assert "receipt 42 sent to ada@example.com" == names["result"].return_value
    later: Any = testing.assert_enqueued(names["send_receipt"])[1]
    assert ("scheduled", 10) == (later.state, later.task.priority)
    testing.run_jobs(until=timedelta(minutes=6))
    later.refresh()
    assert "receipt 43 sent to ben@example.com" == later.return_value


@pytest.mark.django_db(transaction=True)  # the tests shown make their own transactions
@pytest.mark.parametrize("number", [0, 1])
def test_the_tests_shown_in_the_reference_pass(readme: dict[str, str], number: int):
    names: dict[str, Any] = {}
    exec(blocks(text_of("reference/testing.md"), "python")[number], names)
    [shown] = [each for name, each in names.items() if name.endswith("ReceiptTests")]
    shown("test_an_order_sends_its_receipt").debug()


def test_readme_settings_have_no_problems(readme: dict[str, str]):
    names: dict[str, Any] = {"INSTALLED_APPS": []}
    exec(readme["settings.py"], names)
    with override_settings(TASKS=names["TASKS"]):
        assert [] == list(problems("default"))
    assert ["django_jobs"] == names["INSTALLED_APPS"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_shown_exist(page: Path):
    shown = "".join(blocks(page.read_text(), "sh", "console"))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", shown, re.MULTILINE)) <= targets
    known = {*get_commands(), "startapp", "shell", "test", "runserver"}
    assert set(re.findall(r"manage\.py ([a-z_]+)", shown)) <= known


def test_readme_names_the_two_commands_first():
    assert ["demo", "test"] == re.findall(r"make (\w+)", blocks(README.read_text(), "sh")[0])


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_every_link_has_a_text_and_leads_somewhere(page: Path):
    for text, target, anchor in links(page):
        assert text.strip("` "), f"A code host shows nothing for the link to {target}."
        if not target.startswith("https:"):
            there = page.parent / target if target else page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def links(page: Path) -> list[tuple[str, str, str]]:
    """Return the text, the target and the anchor of each link."""
    return re.findall(r"\[([^\]\n]*)\]\(([^)#\s]*)#?([^)\s]*)\)", prose_of(page))


def anchors(page: Path) -> set[str]:
    """Return what code hosts and Sphinx both make of the headings."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if page.name != "index.md"], ids=lambda page: page.stem
)
def test_pages_read_well_as_raw_files(page: Path):
    only_sphinx = r"^(?:\(.*\)=|:::|[`~]{3,}\{)|\{[a-z:]+\}`"
    assert [] == re.findall(only_sphinx, page.read_text(), re.MULTILINE)


def test_only_the_report_of_the_benchmark_has_its_figures():
    assert "benchmarks/report.md" in README.read_text()
    for page in WRITTEN:
        assert not re.search(r"\d (?:jobs/s|jobs a second)", page.read_text()), page


# Settings


@override_settings(TASKS={"default": {"BACKEND": "django_jobs.backend.JobsBackend"}})
def test_every_option_stands_in_the_reference_with_its_default_and_flag():
    table = rows(text_of("reference/settings.md"), "Option")
    assert set(OPTION_NAMES) == {word(row[0]) for row in table}
    for name, _, default, flag, _ in table:
        value = eval(word(default), {"exponential": exponential})
        assert value == getattr(Options("default"), word(name)), name
        assert FLAGS.get(word(name), "–") == (word(flag) or flag), name  # noqa: RUF001


def bounds() -> Iterator[tuple[str, float, float]]:
    for name, kind, *_ in rows(text_of("reference/settings.md"), "Option"):
        if found := re.search(r"([\d.,]*\d) to ([\d.,]*\d)", kind):
            low, high = (float(number.replace(",", "")) for number in found.groups())
            yield word(name), low, high


@pytest.mark.parametrize(("name", "low", "high"), list(bounds()))
def test_bounds_in_the_reference_are_those_of_the_code(name: str, low: float, high: float):
    whole = isinstance(getattr(Options("default"), name), int)
    values = (low, high, low - 1 if whole else low / 2 - 0.001, high + 1)
    least, most, below, above = (int(value) if whole else value for value in values)
    for value in (least, most):
        assert value == getattr(Options("default", **{name: value}), name)
    for value in (below, above):
        with pytest.raises(InvalidOption):
            getattr(Options("default", **{name: value}), name)


# The command


def test_every_flag_of_jobworker_stands_in_the_reference():
    theirs = BaseCommand().create_parser("manage.py", "x")._option_string_actions
    ours = jobworker.Command().create_parser("manage.py", "jobworker")._option_string_actions
    shown = {flag.split()[0] for flag in first_column("reference/command.md", "Flag")}
    assert set(ours) - set(theirs) == shown


def test_the_log_lines_shown_are_lines_that_the_program_writes():
    formats = set(log_formats())
    for level, shown, _ in rows(text_of("reference/command.md"), "Level"):
        matching = [each for each in formats if each[0] == level and fits(each[1], shown)]
        assert matching, shown


def log_formats() -> Iterator[tuple[str, str]]:
    """Yield the level and the format of each line that the package may log."""
    levels = {"exception": "ERROR", **{each: each.upper() for each in LEVELS}}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=name), args=[ast.Constant(value=str(text)), *_]
                ) if name in levels:
                    yield levels[name], text


def fits(text: str, shown: str) -> bool:
    """Tell whether a format gives the line shown, in which … stands for the rest."""
    kinds = {"%s": ".+", "%r": ".+", "%.0f": r"\d+", "%.1f": r"\d+\.\d", "%.3f": r"\d+\.\d{3}"}
    kinds["%g"] = r"\d+(\.\d+)?"
    parts = re.split(r"(%(?:s|r|g|\.\df))", text)
    return bool(re.fullmatch("".join(kinds.get(part, re.escape(part)) for part in parts), shown))


def test_exit_statuses_stand_in_the_reference():
    table = rows(text_of("reference/exit-statuses.md"), "Status")
    known = {"0", "1", str(jobworker.BAD_OPTION), str(jobworker.REFUSED), str(watchdog.SILENT)}
    known.add(str(stopping.RECYCLED))
    assert known | {"128 + n"} == {row[0] for row in table}
    table = rows(text_of("explanation/failure-model.md"), "Status")
    assert known | {"128 + n"} == {row[0] for row in table}


# States, events, reasons, checks


def test_diagram_shows_every_transition_and_no_other():
    [diagram] = blocks(text_of("reference/states.md"), "mermaid")
    arrows = re.findall(r"^ +(\w+) --> (\w+):", diagram, re.MULTILINE)
    known = [(a.value, b.value) for a, following in TRANSITIONS.items() for b in following]
    assert sorted(known) == sorted(arrows)


def test_every_state_and_kind_of_event_stands_in_the_reference():
    assert set(JobState.values) == first_column("reference/states.md", "State")
    assert set(Event.Kind.values) == first_column("reference/states.md", "Kind")


def test_reasons_in_the_reference_are_those_of_the_code():
    sources = code_of()
    written = [
        r'\breason="(\w+)"',
        r'\bDie\("(\w+)"\)',
        r'\b_(?:died|story)\([^()]*?"(\w+)"',
        r'hand_back_held\("(\w+)"\)',
        r"'reason', '(\w+)'",
        r"""'\{"reason": ?"(\w+)"\}'""",
    ]
    found = {reason for pattern in written for reason in re.findall(pattern, sources)}
    assert found == first_column("reference/reasons.md", "Reason")


def test_every_check_id_stands_in_the_reference_and_is_in_the_source():
    found = set(re.findall(r'"(?:django_jobs\.)?([EW]\d{3})"', code_of(".py")))
    shown = first_column("reference/checks.md", "Id")
    assert {f"django_jobs.{code}" for code in found} == shown


def test_every_page_of_the_admin_stands_in_the_reference():
    ours = [model for model in admin.site._registry if model._meta.app_label == "django_jobs"]
    names = {str(model._meta.verbose_name_plural).capitalize() for model in ours}
    assert names == first_column("reference/admin.md", "Page")
    verbs = {str(verb.title): f"`{verb.name}_job`" for verb in VERBS}
    verbs |= {"Pause": "`pause_queue`", "Resume": "`pause_queue`"}
    verbs |= {"Change size": "`change_size_limit`"}
    verbs |= {"Disable": "`disable_schedule`", "Enable": "`disable_schedule`"}
    verbs |= {"Run a schedule now": "`run_schedule`"}
    table = rows(text_of("reference/admin.md"), "Verb")
    assert verbs == {row[0]: row[2] for row in table}


# Tasks and testing


@pytest.mark.django_db
def test_the_refusal_of_wrong_arguments_reads_as_shown(readme: dict[str, str]):
    shown = re.findall(r"`([^`]*cannot be called[^`]*)`", text_of("reference/tasks.md"))
    send_receipt: Any = importlib.import_module("orders.tasks").send_receipt
    with pytest.raises(TypeError) as raised:
        send_receipt.enqueue(email="ada@example.com")
    assert [str(raised.value)] == shown


def test_every_option_of_a_task_stands_in_the_reference():
    known = {*TaskOptions.__annotations__, "takes_context"}
    assert known == first_column("reference/tasks.md", "Option")
    using = set(inspect.signature(JobTask.using).parameters) - {"self", "unknown"}
    assert using == first_column("reference/tasks.md", "Argument")


def test_attributes_of_the_context_exist():
    shown = first_column("reference/tasks.md", "Attribute")
    for name in shown:
        assert name.startswith("context.")
        attribute = name.removeprefix("context.")
        assert attribute in dir(JobContext) or attribute in JobContext.__dataclass_fields__


def test_signatures_in_the_reference_of_testing_are_those_of_the_code():
    headings = re.findall(r"^## `(\w+)\((.*)\)`$", text_of("reference/testing.md"), re.MULTILINE)
    assert {"assert_enqueued", "capture_jobs", "run_jobs", "running_worker"} == {*dict(headings)}
    for name, shown in headings:
        parameters = inspect.signature(getattr(testing, name)).parameters.values()
        plain = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
        assert f"({shown})" == str(inspect.Signature(plain)).replace("'", '"')


# Explanation, database, dependencies


@pytest.mark.parametrize(
    ("statement", "page", "heading"),
    [
        ("claim", "claim", "Part"),
        ("settle", "leases", "Part of the statement"),
        ("dependants", "dependencies-of-jobs", "Part"),
        ("fire", "cron", "Part"),
    ],
)
def test_each_part_of_a_statement_is_explained(statement: str, page: str, heading: str):
    sql = (PACKAGE / "sql" / f"{statement}.sql").read_text()
    parts = re.findall(
        r"^(?:WITH )?(?:RECURSIVE )?(\w+) AS (?:MATERIALIZED )?\(", sql, re.MULTILINE
    )
    assert set(parts) == first_column(f"explanation/{page}.md", heading)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_at_the_prompt_answer_as_shown(page: Path):
    runner = doctest.DocTestRunner()
    code = "\n".join(blocks(page.read_text(), "pycon"))
    runner.run(doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0))
    assert 0 == runner.summarize().failed


def test_tables_and_indexes_stand_in_the_reference():
    models = {model._meta.db_table for model in django_jobs_models() if not model._meta.proxy}
    assert models == first_column("reference/database.md", "Table")
    indexes = {index.name for index in Job._meta.indexes}
    assert indexes == first_column("reference/database.md", "Index")


def django_jobs_models() -> list[Any]:
    from django.apps import apps

    return list(apps.get_app_config("django_jobs").get_models())


def test_every_dependency_is_justified():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = project["project"]["dependencies"]
    groups = project["dependency-groups"].values()
    extras = project["project"]["optional-dependencies"].values()
    asked += [name for group in [*groups, *extras] for name in group if isinstance(name, str)]
    names = {re.match(r"[\w-]+", each)[0] for each in asked}  # type: ignore[index]
    assert names == first_column("explanation/dependencies.md", "Package")


# Form


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_line_holds_one_sentence(page: Path):
    for line in prose_of(page).splitlines():
        if not line.startswith("|"):
            assert not re.search(r"[a-z)`*][.!?] [A-Z`]", line.replace("e.g. ", "")), line


def test_every_page_is_in_a_table_of_contents():
    index = text_of("index.md")
    listed = set(re.findall(r"^([a-z/-]+)$", index, re.MULTILINE))
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert pages - {"index"} == listed
