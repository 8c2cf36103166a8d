"""Ask whether the server that ``DATABASE_URL`` names is there at all.

The standard library is enough, so the answer comes before anything has been installed.
"""

from __future__ import annotations

import os
import socket
import sys
from urllib.parse import parse_qs, unquote, urlsplit

SECONDS = 5.0
SCHEMES = {"postgres", "postgresql"}
EXAMPLE = "postgresql://user@host/name"


def problem(url: str) -> str | None:
    """Say in one sentence why nothing can be reached; None when it can, or is unclear."""
    try:
        address = _address(url)
    except ValueError as error:
        return f"DATABASE_URL cannot be read: {error}."
    if fault := foreign(url):
        return fault
    try:
        if address is not None:
            _knock(*address)
    except OSError as error:
        reason = error.strerror or str(error)
        return f"DATABASE_URL names {':'.join(map(str, address or ()))}, but: {reason}."
    return None


def foreign(url: str) -> str | None:
    """Say what is wrong when the text names no PostgreSQL; never the text, it may be secret."""
    scheme, has_scheme, _ = url.strip().partition("://")
    if has_scheme and "=" not in scheme and scheme not in SCHEMES:
        return f"DATABASE_URL names {scheme}, but django_jobs needs PostgreSQL, as in {EXAMPLE}."
    if url.strip() and not has_scheme and "=" not in url:
        return f"DATABASE_URL cannot be read: it must be a URL such as {EXAMPLE}."
    return None


def _address(url: str) -> tuple[str, int] | None:
    """Host and port of a plain URL; libpq's other forms are left to libpq."""
    parts = urlsplit(url)
    words = parse_qs(parts.query)
    if parts.scheme not in SCHEMES or "," in parts.netloc:
        return None
    host = unquote(parts.hostname or "") or words.get("host", [""])[0]
    return (host, parts.port or int(words.get("port", ["5432"])[0])) if host else None


def _knock(host: str, port: int) -> None:
    if not host.startswith("/"):
        socket.create_connection((host, port), timeout=SECONDS).close()
        return
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SECONDS)
        client.connect(f"{host}/.s.PGSQL.{port}")


if __name__ == "__main__":
    sys.exit(problem(os.environ.get("DATABASE_URL", "")))
