"""The tutorial, done as it is written: every command, every file, every output shown."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from importlib.metadata import distribution
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import django
import pytest

from testproject import wheel
from testproject.postgres import PrivateServer
from tests.processes import wait_for

TUTORIAL = Path(__file__).resolve().parent.parent / "docs" / "tutorial.md"
ENDLESS = ("manage.py jobworker", "manage.py runserver")
JOB = "/admin/django_jobs/job/1/change/"
TRACEBACK = "Traceback (most recent call last)"


class Reader:
    """Does what the tutorial says, in a directory and with a server of its own."""

    def __init__(self, folder: Path, server: PrivateServer) -> None:
        self.folder = folder
        self.output = ""
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.port = free_port()
        info = server.conninfo()
        self.environment = {
            "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}:{wheel.programs()}:{os.environ['PATH']}",
            "PGHOST": info["host"],
            "PGPORT": str(info["port"]),
            "PGUSER": info["user"],
            "PYTHONUNBUFFERED": "1",
        }

    def follow(self, text: str) -> None:
        """Do the steps of one section, in their order."""
        for language, body in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            step: Callable[[str], None] = getattr(self, f"do_{language}")
            step(body)

    def do_sh(self, body: str) -> None:
        for command in body.splitlines():
            self.run(command)

    def do_python(self, body: str) -> None:
        """Write a file, or add to it."""
        title, _, code = body.removeprefix("# ").partition("\n")
        name, *where = title.split(", ")
        if "on Django 5.2" in where and django.VERSION >= (6, 0):
            return
        file = self.folder / name
        before = file.read_text() if "at the end" in where else ""
        file.write_text(before + code)

    def do_text(self, body: str) -> None:
        """Find each line of what was to be seen; … stands for anything."""
        patterns = [".*".join(map(re.escape, line.split("…"))) for line in body.splitlines()]

        def seen() -> bool:
            told = self.told()
            return all(re.search(f"^{each}$", told, re.MULTILINE) for each in patterns)

        wait_for(seen, what=f"Of {body!r} not all is in:\n{self.told()}")

    def told(self) -> str:
        """What the last command has said, or an endless one until now."""
        logs = [file.read_text() for file in self.folder.parent.glob("*.log")]
        return "\n".join([self.output, *logs])

    def run(self, command: str) -> None:
        """Run one line in a shell, to its end if it has one."""
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
        elif command.startswith("python -m pip install "):
            demand_installed(shlex.split(command)[4:])
        elif command.partition("python ")[2].startswith(ENDLESS):
            self.start(command)
        else:
            done = subprocess.run(
                command,
                shell=True,
                check=False,
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self.output = done.stdout
            assert 0 == done.returncode, f"{command}\n{done.stdout}"

    def start(self, command: str) -> None:
        """Start what runs until it is stopped."""
        name = command.split()[2]
        if name == "runserver":
            command = f"{command} {self.port}"
        with (self.folder.parent / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                shlex.split(command),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def close(self) -> None:
        """End what still runs."""
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Browser:
    """As much of one as the admin without scripts needs."""

    def __init__(self, port: int) -> None:
        self.site = f"http://127.0.0.1:{port}"
        self.cookies = CookieJar()
        self.opener = build_opener(HTTPCookieProcessor(self.cookies))
        self.url = ""

    def get(self, path: str) -> str:
        """Open a page; wait for the site to be there."""
        deadline = time.monotonic() + 20
        while True:
            try:
                return self.open(self.site + path)
            except URLError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def post(self, path: str, *fields: tuple[str, str]) -> str:
        """Send a form; return the page that follows."""
        token = next(cookie.value for cookie in self.cookies if cookie.name == "csrftoken")
        data = urlencode([("csrfmiddlewaretoken", token or ""), *fields]).encode()
        return self.open(self.site + path, data)

    def open(self, url: str, data: bytes | None = None) -> str:
        """Return a page's text."""
        with self.opener.open(url, data, timeout=20) as answer:
            text: str = answer.read().decode()
            self.url = answer.url
            return text


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def demand_installed(requirements: list[str]) -> None:
    """The suite installs nothing: what the line installs is here already."""
    for requirement in requirements:
        name = re.sub(r"\[.*", "", requirement.removeprefix("./"))
        assert distribution(name).version


@pytest.fixture
def reader(tmp_path: Path, private_server: Callable[..., PrivateServer]) -> Iterator[Reader]:
    folder = tmp_path / "work"
    folder.mkdir()
    someone = Reader(folder, private_server(settings={"fsync": "off"}))
    yield someone
    someone.close()


@pytest.mark.slow
@pytest.mark.subprocess
def test_tutorial_does_what_it_says(reader: Reader):
    sections = dict(
        re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL)
    )
    [*_, made_by_python] = re.findall(
        r"^python -c .*$", sections["If there is no PostgreSQL at hand"], re.MULTILINE
    )
    reader.run(made_by_python)
    reader.run("dropdb tutorial")
    for title in ("A site", "A task", "A job", "A worker"):
        reader.follow(sections[title])

    steps = re.split(
        r"(^```sh\nmkdir.*?^```$)", sections["The admin"], flags=re.MULTILINE | re.DOTALL
    )
    reader.follow(steps[0])
    browser = Browser(reader.port)
    browser.get("/admin/login/")
    browser.post("/admin/login/?next=/admin/", ("username", "ada"), ("password", "receipts"))
    assert "FileNotFoundError" in browser.get("/admin/django_jobs/deadletter/")
    page = browser.get(JOB)
    assert (3, True) == (page.count(TRACEBACK), "Requeue" in page)
    reader.follow(steps[1])
    browser.post("/admin/django_jobs/job/1/requeue/")
    wait_for(lambda: "receipts/1.txt" in (browser.get(JOB).rpartition("Result")[2]))
    page = browser.get(JOB)
    assert (3, True) == (page.count(TRACEBACK), "succeeded" in page)
    reader.follow(steps[2])
    assert "live" in browser.get("/admin/django_jobs/worker/")
    assert "requeue" in browser.get("/admin/django_jobs/activity/")

    reader.follow(sections["A test"])
    assert "Ran 2 tests" in reader.output
    worker = reader.running["jobworker"]
    worker.send_signal(signal.SIGINT)
    assert 0 == worker.wait(10)
    reader.follow(sections["Stop"])
