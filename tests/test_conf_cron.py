"""The entries of cron in the settings: what is read, what is refused, what a check says."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

import tests
from django_jobs import task
from django_jobs.compat import task_backends
from django_jobs.conf import InvalidOption, Options, Problem, problems
from django_jobs.conf.cron import CATCH_UP, KEYS, OVERLAP, cron_entries
from tests.aliases import put_options

TICK: dict[str, Any] = {"task": "tests.tasks.ok", "schedule": "0 3 * * *"}
WHERE = "TASKS['default']['OPTIONS']['cron']"
SETTINGS = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"


def put(settings: Any, cron: Any, **more: Any) -> list[Problem]:
    """Set the entries; return what is wrong with them."""
    put_options(settings, {"cron": cron}, **more)
    return list(problems("default"))


def checked(settings: Any, **said: Any) -> list[tuple[str, str]]:
    """Return what the system check says of one entry."""
    put_options(settings, {"cron": {"tick": {**TICK, **said}}})
    return [(error.id, error.msg) for error in task_backends["default"].check()]


def test_an_entry_has_these_defaults() -> None:
    entry = cron_entries({"tick": TICK}, "cron")["tick"]
    assert ("tick", "tests.tasks.ok", "0 3 * * *", [], {}, None, None) == (
        entry.name, entry.task, entry.schedule, entry.args, entry.kwargs, entry.queue,
        entry.priority,
    )  # fmt: skip
    assert ("run_once", 100, 60.0, "allow", True) == (
        entry.catch_up, entry.catch_up_limit, entry.grace, entry.overlap, entry.enabled,
    )  # fmt: skip


@pytest.mark.parametrize("use_tz", [True, False])
def test_the_zone_is_that_of_the_site_unless_the_entry_says_another(
    settings: Any, use_tz: bool
) -> None:
    settings.TIME_ZONE, settings.USE_TZ = "Europe/Moscow", use_tz
    assert "Europe/Moscow" == cron_entries({"tick": TICK}, "cron")["tick"].timezone
    own = {**TICK, "timezone": "Asia/Kathmandu"}
    assert "Asia/Kathmandu" == cron_entries({"tick": own}, "cron")["tick"].timezone


def test_arguments_are_what_a_job_would_be_given() -> None:
    said = {**TICK, "args": (1, "é"), "kwargs": {"b": 2, "a": None}}
    entry = cron_entries({"tick": said}, "cron")["tick"]
    assert ([1, "é"], {"b": 2, "a": None}) == (entry.args, entry.kwargs)


BAD: list[tuple[Any, str, str]] = [  # what an entry says, where the fault stands, the cure
    (7, "", "Set it to {'task': 'shop.tasks.report', 'schedule': '0 3 * * *'}."),
    ({"schedule": "0 3 * * *"}, "", "Add 'task'."),
    ({"task": "a.b"}, "", "Add 'schedule'."),
    ({**TICK, "time_zone": "UTC"}, "", "Take out 'time_zone'. Did you mean 'timezone'?"),
    ({**TICK, 7: 8}, "", "Take out 7."),
    ({**TICK, "task": ""}, "['task']", "Set it to a text."),
    ({**TICK, "task": 7}, "['task']", "Set it to a text."),
    ({**TICK, "schedule": "0 0 31 2 *"}, "['schedule']", "so it is never due."),
    ({**TICK, "schedule": "0 3 * * * *"}, "['schedule']", "it has 6 fields and must have five"),
    ({**TICK, "schedule": "@reboot"}, "['schedule']", "'@reboot' is no time"),
    ({**TICK, "schedule": None}, "['schedule']", "Set it to a text."),
    ({**TICK, "timezone": "europe/rome"}, "['timezone']", "Did you mean 'Europe/Rome'?"),
    ({**TICK, "timezone": "Mars/Olympus"}, "['timezone']", "Set it to the name of a zone, such"),
    ({**TICK, "timezone": "localtime"}, "['timezone']", "Set it to the name of a zone, such as"),
    ({**TICK, "timezone": "../../etc/passwd"}, "['timezone']", "Set it to the name of a zone"),
    ({**TICK, "timezone": "Europe"}, "['timezone']", "Set it to the name of a zone, such as"),
    ({**TICK, "timezone": 2}, "['timezone']", "Set it to the name of a zone, such as"),
    ({**TICK, "args": "ab"}, "['args']", "Set it to a list."),
    ({**TICK, "args": [{1}]}, "['args']", "Set it to what JSON can say: "),
    ({**TICK, "args": [float("nan")]}, "['args']", "Set it to what JSON can say: "),
    ({**TICK, "kwargs": [1]}, "['kwargs']", "Set it to a dictionary."),
    ({**TICK, "queue": "a b"}, "['queue']", "Set it to the name of a queue."),
    ({**TICK, "priority": 101}, "['priority']", "Set it to a whole number from -100 to 100."),
    ({**TICK, "priority": True}, "['priority']", "Set it to a whole number from -100 to 100."),
    ({**TICK, "catch_up": "yes"}, "['catch_up']", "Set it to 'run_once', 'skip' or 'all'"),
    ({**TICK, "catch_up": ["all"]}, "['catch_up']", "Set it to 'run_once', 'skip' or 'all'"),
    ({**TICK, "catch_up_limit": 0}, "['catch_up_limit']", "a whole number from 1 to 1,000."),
    ({**TICK, "grace": 0.5}, "['grace']", "Set it to a number of seconds from 1 to 2,592,000."),
    ({**TICK, "overlap": None}, "['overlap']", "Set it to 'allow' or 'skip'"),
    ({**TICK, "enabled": 1}, "['enabled']", "Set it to True or False."),
]


@pytest.mark.parametrize(("said", "place", "cure"), BAD)
def test_a_bad_entry_is_told_with_its_name_the_fault_and_the_cure(
    said: Any, place: str, cure: str, settings: Any
) -> None:
    [problem] = put(settings, {"nightly": said})
    assert "django_jobs.E014" == problem.id
    assert problem.message.startswith(f"{WHERE}['nightly']{place} is ")
    assert cure in problem.hint


def test_what_is_no_dictionary_is_told(settings: Any) -> None:
    [problem] = put(settings, [TICK])
    assert ("django_jobs.E014", True) == (problem.id, problem.message.startswith(f"{WHERE} is "))


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", 7])
def test_what_is_no_name_is_told(name: Any, settings: Any) -> None:
    [problem] = put(settings, {name: TICK})
    assert "Name it by a text of 1 to 100 printable characters." == problem.hint


def test_each_bad_entry_is_told(settings: Any) -> None:
    said = {"a": {**TICK, "queue": ""}, "good": TICK, "b": {**TICK, "enabled": 0}, "c": 1}
    found = put(settings, said)
    assert ["['a']['queue']", "['b']['enabled']", "['c']"] == [
        problem.message.removeprefix(WHERE).partition(" is ")[0] for problem in found
    ]


def test_reading_bad_entries_raises_the_first(settings: Any) -> None:
    put(settings, {"a": 1, "b": 2})
    with pytest.raises(InvalidOption, match=r"\['a'\] is 1"):
        _ = Options("default").cron


# Of what only the tasks tell.


def test_an_entry_that_can_be_fired_has_no_fault(settings: Any) -> None:
    assert [] == checked(settings, args=[7])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"task": "tests.tasks.gone"}, "No task is known as 'tests.tasks.gone' here: its module"),
        ({"task": "tests.nowhere.ok"}, "there is no module tests.nowhere"),
        ({"task": "no path"}, "this is not a dotted path"),
        ({"task": "tests.tasks.ledger"}, "a function is there, not a task"),
        ({"task": "tests.broken_at_import.ok"}, "failed: "),
        ({"args": [1, 2, 3]}, "too many positional arguments"),
        ({"kwargs": {"speed": 9}}, "speed"),
        ({"task": "tests.tasks.nap"}, "seconds"),
        ({"queue": "nowhere"}, "queue_name='nowhere' is not in TASKS['default']['QUEUES']"),
        ({"task": "tests.test_conf_cron.fixed"}, "has a fixed run_after, which would be the same"),
        ({"task": "tests.test_conf_cron.tied"}, "has a fixed depends_on, which would be the same"),
    ],
)
def test_what_could_not_be_enqueued_is_an_error_of_the_check(
    said: dict[str, Any], words: str, settings: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    (tmp_path / "broken_at_import.py").write_text("raise SystemExit('no')")
    monkeypatch.setattr(tests, "__path__", [*tests.__path__, str(tmp_path)])
    [(code, message)] = checked(settings, **said)
    assert "django_jobs.E015" == code
    assert message.startswith(f"{WHERE}['tick'] cannot be fired: ")
    assert words in message


def test_the_check_command_says_it(settings: Any) -> None:
    put_options(settings, {"cron": {"tick": {**TICK, "task": "tests.tasks.gone"}}})
    with pytest.raises(SystemCheckError, match=r"django_jobs\.E015.*\['tick'\] cannot be fired"):
        call_command("check")


# The reference.


def test_every_key_of_an_entry_stands_in_the_reference_with_its_default() -> None:
    table = SETTINGS.read_text().partition("| Key |")[2].partition("\n\n")[0]
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in table.splitlines()[2:]
    ]
    assert list(KEYS) == [row[0].strip("`") for row in rows]
    entry = cron_entries({"tick": TICK}, "cron")["tick"]
    for name, _, default, _ in rows:
        if default.startswith("`"):
            key = name.strip("`")
            assert eval(default.strip("`")) == getattr(entry, key), name
    said = table.replace("`", "")
    assert all(f'"{word}"' in said for word in (*CATCH_UP, *OVERLAP))


@task
def fixed() -> None:
    pass


@task
def tied() -> None:
    pass


fixed = fixed.using(run_after=datetime.fromisoformat("2030-01-01T00:00:00+00:00"))
tied = tied.using(depends_on=["7"])
