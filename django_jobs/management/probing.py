"""``jobworker --health-port``: hands a worker and a connection to who answers probes."""

from __future__ import annotations

from django_jobs.health import HealthServer, Probes, RoundTrip, patience
from django_jobs.worker.connection import PrivateDatabase
from django_jobs.worker.worker import Worker


def answer_probes(worker: Worker, port: str | None, *, host: str) -> HealthServer | None:
    """Answer probes from now on; None when no port is asked for.

    The port is open before the worker registers, so its row tells the address at once.
    """
    if port is None:
        return None
    options = worker.options
    database = PrivateDatabase(options.database, purpose="health")
    probes = Probes(
        worker,
        silent_after=patience(
            lease_seconds=options.lease_seconds, watchdog_seconds=options.watchdog_seconds
        ),
        database=RoundTrip(lambda: database.fetch("ping", {}), hang_up=database.hang_up),
    )
    server = HealthServer(probes, port=port, host=host)
    worker.health = server.address
    server.start()
    return server
