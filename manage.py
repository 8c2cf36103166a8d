#!/usr/bin/env python
"""Run a management command of the test project, with a PostgreSQL to talk to."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from testproject import postgres


def main() -> None:
    """Start the checkout's own server where none was named, then run the command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    try:
        if not postgres.given_url():  # a server that was named is the command's to judge
            postgres.ensure_running()
    except postgres.ServerError as error:
        sys.exit(str(error))
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
