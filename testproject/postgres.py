"""The PostgreSQL of the tests and the demo: ``DATABASE_URL``, else one of the checkout's own.

Without ``DATABASE_URL`` a server from a wheel keeps its data in ``.postgres/`` and is left
running for the next command. Its address depends on the checkout alone, so settings can name
it before it has been started.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from testproject import reachable, wheel
from testproject.cluster import Cluster, StopMode
from testproject.wheel import ServerError

__all__ = [
    "PrivateServer",
    "ServerError",
    "StopMode",
    "as_url",
    "conninfo",
    "database",
    "database_url",
    "ensure_running",
    "given_url",
    "remove",
    "stop",
]

ROOT = Path(__file__).resolve().parent.parent
DATABASE = "django_jobs"
SETTINGS = {
    "max_connections": "200",
    "fsync": "off",  # a crash of PostgreSQL loses nothing; only one of the machine would
}
DJANGO_NAMES = ("host", "password", "port", "user")


def given_url() -> str | None:
    """The server that the environment names, if it names one."""
    return os.environ.get("DATABASE_URL") or None


def conninfo() -> dict[str, Any]:
    """Where the database is, in libpq's words; nothing is started."""
    url = given_url()
    if url is None:
        return _shared().conninfo(DATABASE)
    try:
        found = conninfo_to_dict(url)
    except psycopg.Error as error:
        unread = f"DATABASE_URL cannot be read: {_sentence(error)}"
        raise ServerError(reachable.foreign(url) or unread) from None
    return {"dbname": found.get("user") or "postgres", **found}


def database_url() -> str:
    """The same as a value for ``DATABASE_URL``."""
    return given_url() or as_url(conninfo())


def database() -> dict[str, Any]:
    """The same as an entry of Django's ``DATABASES``.

    Workers that a test starts are told the test database by ``DJANGO_JOBS_TEST_DATABASE``.
    """
    info = conninfo()
    name = info.pop("dbname")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("DJANGO_JOBS_TEST_DATABASE") or name,
        **{word.upper(): info.pop(word) for word in DJANGO_NAMES if word in info},
        "OPTIONS": info,
    }


def ensure_running() -> dict[str, Any]:
    """Return where the database is, with a server there and the database made."""
    if given_url() is None:
        _start_shared()
    info = conninfo()
    _ensure_database(info)
    return info


def stop() -> None:
    """Stop the checkout's own server, if it runs."""
    with _locked():
        _shared().stop()


def remove() -> None:
    """Stop the checkout's own server and delete its data."""
    with _locked():
        _shared().stop()
        shutil.rmtree(_data_folder(), ignore_errors=True)
        shutil.rmtree(_run_folder())


def as_url(info: Mapping[str, Any]) -> str:
    """Write libpq's words as one URL."""
    rest = {key: value for key, value in info.items() if key not in {"user", "dbname"}}
    return f"postgresql://{quote(info['user'])}@/{quote(info['dbname'])}?{urlencode(rest)}"


class PrivateServer:
    """A server for one test, which may stop, kill or freeze it; durable as by default.

    It is made anew in a temporary directory, whatever ``DATABASE_URL`` says.
    """

    def __init__(self, *, tcp: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self.folder = _private_folder()
        self.port = _free_port() if tcp else 5432
        self.cluster = Cluster(
            self.folder / "data",
            self.folder,
            port=self.port,
            listen="127.0.0.1" if tcp else "",
            settings={"max_connections": "200", **(settings or {})},
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log_path(self) -> Path:
        """What the server writes: statements too, with ``log_statement`` set."""
        return self.cluster.log_path

    def conninfo(self, dbname: str = "postgres") -> dict[str, Any]:
        """Where a database of this server is, over its Unix socket."""
        return self.cluster.conninfo(dbname)

    def url(self, dbname: str = "postgres") -> str:
        """The same as a value for ``DATABASE_URL``."""
        return as_url(self.conninfo(dbname))

    def create_database(self, dbname: str) -> str:
        """Make an empty database; return its URL."""
        _create_database(self.conninfo(), dbname)
        return self.url(dbname)

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self.cluster.create()
        self.cluster.start()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop it as an operator would."""
        self.cluster.stop(mode)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop it and start it again, on the same data and port."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """End it as a crash would."""
        self.cluster.kill()

    def freeze(self) -> None:
        """Let it hang: connections stay open and nothing answers."""
        self.cluster.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self.cluster.thaw()

    def close(self) -> None:
        """End it and remove its data."""
        self.cluster.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _shared() -> Cluster:
    return Cluster(_data_folder(), _run_folder(), settings=SETTINGS)


def _run_folder() -> Path:
    return wheel.TEMPORARY / f"django_jobs-{wheel.digest(f'{ROOT}:{os.geteuid()}')}"


def _data_folder() -> Path:
    """A directory per account, in the checkout when the account may enter that."""
    home = ROOT / ".postgres" if wheel.can_enter(ROOT) else _run_folder()
    return home / wheel.account().pw_name


def _start_shared() -> None:
    with _locked():
        cluster = _shared()
        if cluster.answers():
            return
        _announce(cluster)
        cluster.evict()
        _make_parent(cluster.data.parent)
        cluster.create()
        cluster.start()


def _make_parent(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir()
        folder.chmod(0o755)  # whatever the umask: the server's account must get through


def _announce(cluster: Cluster) -> None:
    if os.geteuid() == 0:
        text = f"PostgreSQL refuses root: it runs as {wheel.ACCOUNT}, its data in {cluster.data}."
        print(text, file=sys.stderr)


@contextmanager
def _locked() -> Iterator[None]:
    """Let one process at a time look after the shared server."""
    with (wheel.make_directory(_run_folder()) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ensure_database(info: Mapping[str, Any]) -> None:
    """Make the database unless it can be reached; say why when it cannot."""
    if _refusal(info) is None:
        return
    with suppress(psycopg.Error):  # another process may be making it
        _create_database({**info, "dbname": "postgres"}, info["dbname"])
    if (refusal := _refusal(info)) is not None:
        raise ServerError(f"The database cannot be reached: {refusal}")


def _refusal(info: Mapping[str, Any]) -> str | None:
    try:
        _connect(info).close()
    except psycopg.Error as error:
        return _sentence(error)
    return None


def _create_database(info: Mapping[str, Any], dbname: str) -> None:
    with _connect(info) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(dbname)))


def _connect(info: Mapping[str, Any]) -> psycopg.Connection[Any]:
    return psycopg.connect(**{"connect_timeout": 5, **info}, autocommit=True)


def _sentence(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


def _private_folder() -> Path:
    made = tempfile.mkdtemp(prefix="django_jobs-private-", dir=wheel.TEMPORARY)
    return wheel.make_directory(Path(made))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main(words: list[str]) -> None:
    """Start the server and print its URL, stop it, or remove it with its data."""
    verbs = {"start": _print_url, "stop": stop, "remove": remove}
    if len(words) != 1 or words[0] not in verbs:
        sys.exit(f"usage: python -m testproject.postgres {'|'.join(verbs)}")
    try:
        verbs[words[0]]()
    except ServerError as error:
        sys.exit(str(error))


def _print_url() -> None:
    ensure_running()
    print(database_url())


if __name__ == "__main__":
    main(sys.argv[1:])
