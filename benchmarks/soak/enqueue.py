"""``python -m benchmarks.soak.enqueue JOBS SECONDS``: enqueue them in one transaction."""

from __future__ import annotations

import sys

import django
from django.db import transaction


def main(jobs: int, seconds: float) -> None:
    """Enqueue ``jobs`` that take ``seconds`` each."""
    from benchmarks.soak.jobs import noted

    with transaction.atomic():
        noted.enqueue_many(noted.s(seconds) for _ in range(jobs))


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), float(sys.argv[2]))
