"""May this database hold jobs? Asked once, before anything is claimed."""

from __future__ import annotations

from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from django_jobs.exceptions import DatabaseRefused

OLDEST = 14  # PostgreSQL's major version


def require_database(alias: str) -> None:
    """Raise DatabaseRefused, with what to do, unless jobs can be kept in ``alias``."""
    connection = connections[alias]
    if connection.vendor != "postgresql":
        msg = (
            f"Database {alias!r} is {connection.display_name}: django_jobs needs PostgreSQL,"
            " for SELECT … FOR UPDATE SKIP LOCKED, LISTEN and partial indexes."
            " Name a PostgreSQL alias in OPTIONS['database']."
        )
        raise DatabaseRefused(msg)
    try:
        connection.ensure_connection()
        _require_version(alias)
        _require_migrations(alias)
    finally:  # it is not needed any more, and a broken one would be used again
        connection.close()


def _require_version(alias: str) -> None:
    version = getattr(connections[alias], "pg_version", 0) // 10_000
    if version < OLDEST:
        msg = f"Database {alias!r} is PostgreSQL {version}; django_jobs needs {OLDEST} or later."
        raise DatabaseRefused(msg)


def _require_migrations(alias: str) -> None:
    executor = MigrationExecutor(connections[alias])
    leaves = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "django_jobs"]
    missing = executor.migration_plan(leaves)
    if missing:
        names = ", ".join(migration.name for migration, _ in missing)
        msg = (
            f"Database {alias!r} lacks migrations of django_jobs ({names})."
            f" Run: manage.py migrate django_jobs --database {alias}"
        )
        raise DatabaseRefused(msg)
