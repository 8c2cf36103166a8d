"""``manage.py jobworker``: parse, build a Worker, run it."""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand

from django_jobs.compat import DEFAULT_TASK_BACKEND_ALIAS
from django_jobs.conf import InvalidOption
from django_jobs.exceptions import DatabaseRefused
from django_jobs.worker import Worker

REFUSED = 3
class Command(BaseCommand):
    help = "Run jobs until stopped by SIGTERM or Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--max-in-flight")
        parser.add_argument("--once", action="store_true")
    def handle(self, **given: Any) -> NoReturn:
        from django_jobs.conf import Options
        n = given["max_in_flight"]
        logging.basicConfig(level=logging.INFO)
        worker = Worker(Options("default", max_in_flight=int(n) if n else None), once=given["once"])
        worker.handle_signals()
        sys.exit(worker.run())
