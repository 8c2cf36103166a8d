"""The reference of ``manage.py jobs`` tells what the command does."""

from __future__ import annotations

import json

from django_jobs.health import patience
from django_jobs.management.frame import Status, load_verb, parser_of, verb_names
from tests.health.knocking import get, serving
from tests.test_docs import first_column, rows, text_of

PAGE = "reference/jobs-command.md"


def flags(verb: str) -> set[str]:
    """All flags of a verb that its help shows."""
    shown = [
        each for each in parser_of(verb, load_verb(verb))._actions if each.help != "==SUPPRESS=="
    ]
    return {flag for each in shown for flag in each.option_strings if flag.startswith("--")}


def column(heading: str) -> set[str]:
    """The flags in the first column of a table."""
    return {cell.split()[0] for cell in first_column(PAGE, heading)}


def test_every_verb_stands_in_the_reference():
    assert set(verb_names()) == column("Verb")


def test_every_flag_stands_in_the_reference():
    every = column("Flag of every verb")
    assert every | {"--help"} | column("Flag of health") == flags("health")
    assert every | {"--help", "--all"} == flags("workers")
    acts = every | {"--help"} | column("Flag of an act")
    assert acts | column("Flag of purge") == flags("purge")


def test_every_status_stands_in_the_reference():
    shown = [(int(row[0]), row[1]) for row in rows(text_of(PAGE), "Ends with")]
    assert [(each.value, each.name.lower()) for each in Status] == shown


def test_every_key_of_an_answer_stands_in_the_reference():
    with serving() as server:
        said = json.loads(get(server.address).body)
    assert [*said] == [cell.strip("`") for cell, _ in rows(text_of(PAGE), "Key")]


def test_a_loop_may_be_silent_for_as_long_as_the_reference_says():
    assert 60 == patience(lease_seconds=30, watchdog_seconds=120)
    assert 20 == patience(lease_seconds=5, watchdog_seconds=120)
    assert 50 == patience(lease_seconds=40, watchdog_seconds=50)
    assert "with the defaults for 60 seconds" in text_of(PAGE)
