"""``jobs doctor``: is all that the jobs rest on in order?"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter

from django_jobs.management.frame import Call, Status
from django_jobs.operations.doctor import Exam, Finding, examine

HELP = "Look whether the database, the workers and the queues are in order, and say what to do."
WIDE = 13  # of the name of a check


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what counts as well."""
    parser.add_argument(
        "--strict", action="store_true", help="end with 3 when there are warnings and no errors"
    )


def run(call: Call) -> Status:
    """Say each finding as it comes; errors end it with 1."""
    levels: Counter[str] = Counter()
    for finding in examine(Exam(call.backend, call.database)):
        levels[finding.level] += 1
        call.out.record(finding._asdict())
        _say(call, finding)
    call.out.say(f"Errors: {levels['error']}, warnings: {levels['warning']}, ok: {levels['ok']}.")
    if levels["error"]:
        return Status.ERROR
    return Status.UNMET if levels["warning"] and call.given.strict else Status.DONE


def _say(call: Call, finding: Finding) -> None:
    call.out.say(f"{finding.level:7}  {finding.check:{WIDE}}  {finding.sentence}")
    if finding.cure:
        call.out.say(f"{'':7}  {'':{WIDE}}  → {finding.cure}")
