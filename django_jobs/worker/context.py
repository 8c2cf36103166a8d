"""What a running task may see; tasks can name it without a worker."""

from __future__ import annotations

from django_jobs.tasks import JobContext

__all__ = ["JobContext"]
