"""The servers that the tests and the demo run on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from testproject import cluster, postgres, reachable, wheel
from testproject.postgres import PrivateServer

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.subprocess


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another checkout, whose own server does not run yet."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr(postgres, "ROOT", tmp_path)
    yield tmp_path
    postgres._shared().kill()
    shutil.rmtree(postgres._run_folder(), ignore_errors=True)


def ask(info: dict[str, Any], query: str = "SELECT 1") -> object:
    with psycopg.connect(**info, connect_timeout=5) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def running_since(info: dict[str, Any]) -> object:
    return ask(info, "SELECT pg_postmaster_start_time()")


def manage(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_shared_server_is_started_once_and_found_again(checkout: Path):
    info = postgres.ensure_running()
    since = running_since(info)
    assert since == running_since(postgres.ensure_running())
    assert "200" == ask(info, "SHOW max_connections")


def test_two_starts_at_once_make_one_server(checkout: Path):
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: postgres.ensure_running(), range(2))
    assert running_since(first) == running_since(second)


def test_stale_pid_file_of_another_program_does_not_stop_a_start(checkout: Path):
    postgres.ensure_running()
    postgres.stop()
    data = postgres._shared().data
    lines = [str(os.getpid()), str(data), str(int(time.time())), "5432", "", "", ""]
    (data / "postmaster.pid").write_text("\n".join(lines))
    assert 1 == ask(postgres.ensure_running())


def test_crashed_server_is_started_again(checkout: Path):
    postgres.ensure_running()
    postgres._shared().kill()
    assert 1 == ask(postgres.ensure_running())


def test_frozen_server_is_replaced(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "PATIENCE_SECONDS", 2)
    since = running_since(postgres.ensure_running())
    postgres._shared().freeze()
    assert since != running_since(postgres.ensure_running())


def test_server_whose_data_were_removed_is_replaced(checkout: Path):
    since = running_since(postgres.ensure_running())
    data = postgres._shared().data
    data.rename(data.with_name("gone"))
    assert since != running_since(postgres.ensure_running())


def test_server_whose_socket_was_removed_is_replaced(checkout: Path):
    info = postgres.ensure_running()
    for path in Path(info["host"]).glob(".s.*"):
        path.unlink()
    assert 1 == ask(postgres.ensure_running())


def test_full_server_is_left_alone(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgres, "SETTINGS", {"max_connections": "5"})
    info = postgres.ensure_running()
    since = running_since(info)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(psycopg.connect(**info))
        with pytest.raises(postgres.ServerError, match="too many clients"):
            postgres.ensure_running()
    assert since == running_since(postgres.ensure_running())


def test_half_made_data_directory_is_made_anew(checkout: Path):
    data = postgres._shared().data
    half = data.with_name(data.name + ".new")
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    assert 1 == ask(postgres.ensure_running())


def test_removed_server_leaves_nothing_behind(checkout: Path):
    info = postgres.ensure_running()
    data = postgres._shared().data
    postgres.remove()
    assert not data.exists()
    assert not Path(info["host"]).exists()


def test_path_of_the_socket_is_short_for_a_deep_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    deep = tmp_path.joinpath(*["deep" * 20] * 5)
    deep.mkdir(parents=True)
    monkeypatch.setattr(postgres, "ROOT", deep)
    assert len(postgres.conninfo()["host"] + "/.s.PGSQL.5432.lock") < 107


def test_folder_that_belongs_to_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "mine").symlink_to(tmp_path)
    with pytest.raises(wheel.ServerError, match="belongs to somebody else"):
        wheel.make_directory(tmp_path / "mine")


def test_copied_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wheel, "TEMPORARY", tmp_path)
    copied = wheel._copied(wheel.programs().parent)
    version = subprocess.run(
        [copied / "bin" / "initdb", "--version"], capture_output=True, check=True
    )
    assert b"PostgreSQL" in version.stdout


def test_private_server_is_durable_and_has_a_port_on_request(
    private_server: Callable[..., PrivateServer],
):
    server = private_server(tcp=True, settings={"log_statement": "all"})
    over_tcp = {**server.conninfo(), "host": "127.0.0.1"}
    assert "on" == ask(over_tcp, "SHOW fsync")
    assert "SHOW fsync" in server.log_path.read_text()


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
def test_private_server_keeps_what_was_committed_over_a_restart(
    private_server: Callable[..., PrivateServer], mode: postgres.StopMode
):
    server = private_server()
    with psycopg.connect(server.url()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    server.restart(mode)
    assert 7 == ask(server.conninfo(), "SELECT value FROM kept")


def test_private_server_starts_again_after_a_kill(private_server: Callable[..., PrivateServer]):
    server = private_server()
    with psycopg.connect(server.create_database("x")) as connection:
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.start()
    assert "x" == ask(server.conninfo("x"), "SELECT current_database()")


def test_frozen_private_server_goes_on_when_thawed(private_server: Callable[..., PrivateServer]):
    server = private_server()
    server.freeze()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url(), connect_timeout=2)
    server.thaw()
    assert 1 == ask(server.conninfo())


def test_private_server_leaves_nothing_behind():
    with PrivateServer() as server:
        processes = server.cluster.processes()
        assert len(processes) > 1
    assert not server.folder.exists()
    assert server.cluster.processes() == []


def test_unreachable_database_url_is_told_in_one_sentence_before_anything_is_installed():
    url = "postgresql://127.0.0.1:1/x"
    result = manage("-S", "-m", "testproject.reachable", DATABASE_URL=url)
    assert 1 == result.returncode
    assert "DATABASE_URL names 127.0.0.1:1, but: Connection refused.\n" == result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("-S", "-m", "testproject.reachable"),
        ("manage.py", "demo"),
        ("-m", "pytest", "--no-header", "-q"),
    ],
    ids=" ".join,
)
def test_another_database_in_the_url_is_told_in_one_sentence(words: tuple[str, ...]):
    result = manage(*words, DATABASE_URL="sqlite:///x.db")
    assert 1 == result.returncode
    told = "DATABASE_URL names sqlite, but django_jobs needs PostgreSQL, as in {}.\n"
    assert told.format(reachable.EXAMPLE) == result.stderr


def test_unreachable_database_url_is_told_in_one_sentence_by_the_suite():
    url = "postgresql://127.0.0.1:1/x"
    result = manage("-m", "pytest", "--no-header", "-q", DATABASE_URL=url)
    assert 3 == result.returncode
    assert 1 == result.stderr.count("\n")
    assert "The database cannot be reached" in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host=/nowhere",
        "service=elsewhere",
        "postgresql:///x",
        "postgresql://a,b:1/x",
    ],
)
def test_forms_that_only_libpq_reads_are_left_to_it(url: str):
    assert None is reachable.problem(url)


@pytest.mark.parametrize("url", ["postgresql://h:port/x", "postgresql://[::1/x", "shop"])
def test_malformed_url_is_told(url: str):
    assert "cannot be read" in (reachable.problem(url) or "")


def test_a_fault_of_the_url_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch):
    url = "postgresql+psycopg://me:secret@h/x"
    monkeypatch.setenv("DATABASE_URL", url)
    with pytest.raises(wheel.ServerError, match="names postgresql\\+psycopg, but") as raised:
        postgres.conninfo()
    assert reachable.problem(url) == str(raised.value)
    assert "secret" not in str(raised.value)


def test_socket_directory_in_a_url_is_knocked_at(private_server: Callable[..., PrivateServer]):
    server = private_server()
    assert None is reachable.problem(server.url())
    server.stop()
    assert "No such file" in (reachable.problem(server.url()) or "")


def test_database_url_becomes_a_django_database(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:pa%40ss@h:1234/shop?sslmode=require")
    monkeypatch.delenv("DJANGO_JOBS_TEST_DATABASE", raising=False)
    expected = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "shop",
        "USER": "me",
        "PASSWORD": "pa@ss",
        "HOST": "h",
        "PORT": "1234",
        "OPTIONS": {"sslmode": "require"},
    }
    assert expected == postgres.database()


def test_missing_database_is_made(
    private_server: Callable[..., PrivateServer], monkeypatch: pytest.MonkeyPatch
):
    server = private_server()
    monkeypatch.setenv("DATABASE_URL", server.url("new"))
    assert "new" == ask(postgres.ensure_running(), "SELECT current_database()")


def test_importing_the_settings_starts_nothing(tmp_path: Path):
    code = (
        "from pathlib import Path; from testproject import postgres;"
        f"postgres.ROOT = Path({str(tmp_path)!r});"
        "from testproject import settings;"
        "host = settings.DATABASES['default']['HOST'];"
        "assert not Path(host).exists(), host"
    )
    result = manage("-c", code, DATABASE_URL="")
    assert (0, "") == (result.returncode, result.stderr)
