"""``jobworker --metrics-port``: the default registry over HTTP, beside the worker."""

from __future__ import annotations

import logging
import os
import re

from django_jobs.metrics import NEEDED, is_available

logger = logging.getLogger("django_jobs.worker")

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a container is scraped from outside of it
HIGHEST = 65_535
PROCESS = "DJANGO_JOBS_PROCESS"  # which of a parent's processes this is, from 0


class PortRefused(Exception):
    """Metrics cannot be served as asked; the message names the cure."""


def serve(port: str | None, *, host: str) -> int | None:
    """Serve the metrics from now on; return the port, None when ``port`` is None.

    0 stands for any free port. Of several processes the k-th takes ``port`` + k.
    """
    if port is None:
        return None
    number = _number(port)
    if not is_available():
        msg = f"--metrics-port: {NEEDED}"
        raise PortRefused(msg)
    taken = _listen(number, host)
    shown = f"[{host}]" if ":" in host else host
    logger.info("metrics on http://%s:%s/metrics", shown, taken)
    return taken


def _listen(number: int, host: str) -> int:
    from prometheus_client import start_http_server

    try:
        server, _ = start_http_server(number, addr=host)
    except OSError as error:
        msg = (
            f"--metrics-port {number} cannot be served on {host}: {error.strerror or error}."
            " Choose a free port, or 0 for any, and --metrics-host for another address."
        )
        raise PortRefused(msg) from None
    return int(server.server_port)


def _number(text: str) -> int:
    """Return the port of this process."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > HIGHEST:
        msg = f"--metrics-port is {text!r:.60}. Set it to a whole number from 0 to {HIGHEST}."
        raise PortRefused(msg)
    number = int(text)
    if number:
        number += _process()
    if number > HIGHEST:
        msg = (
            f"--metrics-port {text}: process {_process()} would take {number}. Choose a lower one."
        )
        raise PortRefused(msg)
    return number


def _process() -> int:
    said = os.environ.get(PROCESS, "")
    return int(said) if said.isdecimal() else 0
