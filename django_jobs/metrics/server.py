"""``jobworker --metrics-port``: the default registry over HTTP, beside the worker."""

from __future__ import annotations

import logging

from django_jobs.metrics import NEEDED, is_available
from django_jobs.ports import PortRefused, chosen, refusal

logger = logging.getLogger("django_jobs.worker")


def serve(port: str | None, *, host: str) -> int | None:
    """Serve the metrics from now on; return the port, None when ``port`` is None.

    0 stands for any free port. Of several processes the k-th takes ``port`` + k.
    """
    if port is None:
        return None
    number = chosen(port, flag="--metrics-port")
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
        raise refusal(
            error, flag="--metrics-port", host_flag="--metrics-host", port=number, host=host
        ) from None
    return int(server.server_port)
