"""``manage.py jobs``: what an operator asks and does from a shell."""

from __future__ import annotations

import os
import sys
from argparse import REMAINDER, ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

import psycopg
from django.core.management.base import BaseCommand
from django.db import Error, ProgrammingError

from django_jobs.conf import InvalidOption
from django_jobs.management.frame import (
    Call,
    Failed,
    Status,
    load_verb,
    parser_of,
    place,
    verb_names,
)
from django_jobs.management.output import Output, printable
from django_jobs.sql.private import brief

INTERRUPTED = 130  # as a shell says it of Ctrl-C


def _summary() -> str:
    verbs = verb_names()
    wide = max(map(len, verbs))
    listed = "\n".join(f"  {name:{wide}}  {load_verb(name).HELP}" for name in verbs)
    return f"verbs:\n{listed}\n\nmanage.py jobs VERB --help says more of one."


class Command(BaseCommand):
    """Finds the verb, parses its words, and turns what happens into a status."""

    help = "Look after jobs, queues and workers."
    requires_system_checks = ()  # a probe must be quick, and an emergency does not wait

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Name the verbs under the command's own help."""
        kwargs |= {"epilog": _summary(), "formatter_class": RawDescriptionHelpFormatter}
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take a verb and its words, which its own parser reads."""
        parser.add_argument("verb", nargs="?", metavar="VERB")
        parser.add_argument("words", nargs=REMAINDER, metavar="…", help="of the verb")

    def handle(self, **given: Any) -> None:
        """Do what the verb says; exit with its status unless that is 0."""
        try:
            status = self._do(given["verb"], given["words"])
        except Failed as error:
            said = "\n".join(map(printable, str(error).splitlines()))
            self.stderr.write(f"jobs: {said}")
            status = error.status
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = Status.DONE
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        if status:
            sys.exit(status)

    def _do(self, name: str | None, words: list[str]) -> Status:
        if name is None:
            msg = f"Name a verb: {', '.join(verb_names())}."
            raise Failed(msg, Status.USAGE)
        verb = load_verb(name)
        said = parser_of(name, verb).parse_args(words)
        backend, database = place(said)
        out = Output(self.stdout, json=said.json)
        try:
            return verb.run(Call(said, out, backend=backend, database=database))
        except InvalidOption as error:
            raise Failed(str(error), Status.USAGE) from error
        except (psycopg.ProgrammingError, ProgrammingError) as error:
            msg = (
                f"The tables in {database!r} do not fit this version of django_jobs"
                f" ({brief(error)}). Run: manage.py migrate django_jobs --database {database}"
            )
            raise Failed(msg) from error
        except (psycopg.Error, Error) as error:
            msg = f"The database {database!r} does not answer: {brief(error)}"
            raise Failed(msg) from error
