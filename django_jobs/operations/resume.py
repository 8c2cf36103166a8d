"""Let a paused queue's jobs be claimed again."""

from __future__ import annotations

from django_jobs.operations.act import Actor, recorded
from django_jobs.operations.enqueue import ring_on_commit
from django_jobs.operations.queue_known import require_name, require_queue
from django_jobs.sql import SiteDatabase


def resume(queue: str, *, backend: str, actor: Actor, reason: str = "", database: str) -> bool:
    """End the pause of ``queue``; return False, and write nothing, when it was not paused.

    Workers that sleep are woken after the commit. Raises Refused for a queue that nobody
    knows; one that is paused can be resumed whatever the settings have become.
    """
    require_name(queue)
    params = recorded("resume", actor, scope=f"queue {queue} of {backend}", reason=reason)
    params |= {"backend": backend, "queue": queue}
    if SiteDatabase(database).fetch("resume", params):
        ring_on_commit({queue}, backend=backend, database=database)
        return True
    require_queue(queue, backend=backend, database=database)
    return False
