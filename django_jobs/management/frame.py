"""What the verbs of ``manage.py jobs`` have in common: flags, actor, statuses, errors."""

from __future__ import annotations

import getpass
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from django.db import connections

from django_jobs.compat import DEFAULT_TASK_BACKEND_ALIAS
from django_jobs.conf import Options
from django_jobs.conf.values import did_you_mean, shown
from django_jobs.management import jobs
from django_jobs.management.output import Output
from django_jobs.operations.act import Actor
from django_jobs.worker.flags import UsageError, require_alias


class Status(IntEnum):
    """How ``manage.py jobs`` ends. Public, stable."""

    DONE = 0
    ERROR = 1  # a fault, or what was asked about is not well
    USAGE = 2  # a word or a setting that cannot be used
    UNMET = 3  # the condition is not met: the job cannot run, say
    PARTLY = 4  # some of it was done


class Failed(Exception):
    """Ends the command with one sentence on standard error."""

    def __init__(self, sentence: str, status: Status = Status.ERROR) -> None:
        """``status`` is what the command exits with."""
        self.status = status
        super().__init__(sentence)


@dataclass(frozen=True)
class Call:
    """One call of a verb: what was said, where it acts, how it answers."""

    given: Namespace
    out: Output
    backend: str  # an alias of TASKS, whose backend is ours
    database: str  # an alias of DATABASES
    ask: Callable[[str], str] = lambda question: _asked(question)  # noqa: PLW0108 - below
    is_at_terminal: Callable[[], bool] = sys.stdin.isatty

    @cached_property
    def options(self) -> Options:
        """The settings of the backend."""
        return Options(self.backend)

    @property
    def actor(self) -> Actor:
        """Who acts: ``--as``, else the user of the operating system."""
        return Actor(name=getattr(self.given, "as_name", None) or os_user(), via="cli")

    def confirm(self, question: str, *, typed: str) -> None:
        """Return when the operator types ``typed``, or gave ``--yes``; else raise Failed.

        Where nobody can be asked, ``--yes`` is needed.
        """
        if self.given.yes:
            return
        if not self.is_at_terminal():
            msg = "There is no terminal to ask at. Say --yes to go on without a question."
            raise Failed(msg, Status.USAGE)
        try:
            answer = self.ask(f"{question} Type {typed} to go on: ")
        except EOFError:
            answer = ""
        if answer.strip() != typed:
            msg = "Nothing was changed."
            raise Failed(msg)


class Verb(Protocol):
    """What a module of ``django_jobs.management.jobs`` provides."""

    HELP: str

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the flags of this verb."""

    def run(self, call: Call) -> Status:
        """Do it."""


def _asked(question: str) -> str:
    """Ask beside the answer, which may go to a file."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return input()


def os_user() -> str:
    """Return the name of the user of the operating system, or its number."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have users without a name
        import os

        return f"uid {os.getuid()}"


def verb_names() -> list[str]:
    """Return the verbs there are, in order."""
    return sorted(each.name.replace("_", "-") for each in iter_modules(jobs.__path__))


def load_verb(name: str) -> Verb:
    """Return a verb by its name; raise Failed, with the nearest one, when there is none."""
    known = verb_names()
    if name not in known:
        cure = did_you_mean(name, known) or f" There are: {', '.join(known)}."
        msg = f"There is no verb {shown(name)}.{cure}"
        raise Failed(msg, Status.USAGE)
    return cast("Verb", import_module(f"{jobs.__name__}.{name.replace('-', '_')}"))


def parser_of(name: str, verb: Verb) -> ArgumentParser:
    """Return the parser of one verb, with the flags that all have."""
    parser = ArgumentParser(
        prog=f"manage.py jobs {name}", description=verb.HELP, allow_abbrev=False
    )
    verb.add_arguments(parser)
    every = parser.add_argument_group("of every verb").add_argument
    every("--backend", default=DEFAULT_TASK_BACKEND_ALIAS, help="alias in TASKS (default)")
    every("--database", metavar="ALIAS", help="alias in DATABASES (the backend's)")
    every("--json", action="store_true", help="one JSON object a line")
    for flag in ("--settings", "--pythonpath", "--verbosity", "-v"):
        every(flag, help=SUPPRESS)  # Django has read them already
    every("--traceback", action="store_true", help=SUPPRESS)
    return parser


def add_act_flags(parser: ArgumentParser, *, destroys: bool = False) -> None:
    """Declare the flags of a verb that changes something; ``destroys``: it asks first."""
    add = parser.add_argument
    add("--reason", default="", help="why; kept with the record of the act")
    add("--as", dest="as_name", metavar="NAME", help="who acts (the user of the system)")
    if destroys:
        add("--yes", action="store_true", help="do not ask")


def place(given: Namespace) -> tuple[str, str]:
    """Return the alias in TASKS and the one in DATABASES; raise Failed for unknown ones."""
    try:
        backend = require_alias(given.backend)
        database = given.database or Options(backend).database
    except (UsageError, ValueError) as error:
        raise Failed(str(error), Status.USAGE) from None
    if database not in connections:
        known = list(connections)
        cure = did_you_mean(database, known) or f" There are: {', '.join(known)}."
        msg = f"DATABASES has no alias {shown(database)}.{cure}"
        raise Failed(msg, Status.USAGE)
    return backend, database
