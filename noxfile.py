"""Every supported pair of Python and Django, and the checks that need only one.

``nox`` runs all, ``nox -s "tests(python='3.13', django='6.1')"`` one pair. A pair whose
interpreter is missing fails: a silent skip would look like a pass.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml("pyproject.toml")
LATEST = "3.13"
PAGE = "django-prometheus"  # does not install beside Django 6.1
TOGETHER = (
    "--numprocesses=3",
    "--dist=loadfile",
    "--no-loadscope-reorder",
)  # most of the suite's time is waiting

# Django 6 needs Python 3.12. Each version of either is in at least one pair.
PAIRS = [("3.11", "5.2"), ("3.12", "5.2"), ("3.12", "6.1"), ("3.13", "6.0"), ("3.13", "6.1")]
LEFT_BEHIND = shutil.ignore_patterns(
    ".git", ".nox", ".postgres", ".venv", ".*_cache", "__pycache__", "dist", "django_jobs", "var"
)

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", "imports", "typing", "docs", "wheel", "tests"]


def classified(prefix: str) -> set[str]:
    """Return the versions that the classifiers with ``prefix`` promise."""
    names = [name.removeprefix(prefix) for name in PROJECT["project"]["classifiers"]]
    return {name for name in names if name.replace(".", "").isdigit()}


def demand_all_classified() -> None:
    """Refuse pairs that leave out a promised version, or try one that nobody promised."""
    pythons = classified("Programming Language :: Python :: ")
    djangos = classified("Framework :: Django :: ")
    if (pythons, djangos) != ({python for python, _ in PAIRS}, {django for _, django in PAIRS}):
        raise SystemExit("The pairs of noxfile.py and the classifiers of pyproject.toml differ.")


demand_all_classified()


def group(name: str) -> list[str]:
    """Return what one dependency group asks for."""
    return [*nox.project.dependency_groups(PROJECT, name)]


def built(session: nox.Session) -> Path:
    """Build the wheel anew; return its path."""
    folder = Path(session.create_tmp()) / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    session.run(
        "python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), "."
    )
    return next(folder.glob("*.whl"))


def elsewhere(session: nox.Session) -> Path:
    """Copy the checkout without the package, so that only the wheel can be imported."""
    copy = Path(session.create_tmp()) / "checkout"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT, copy, ignore=LEFT_BEHIND)
    return copy


@nox.session
@nox.parametrize("python,django", PAIRS)
def tests(session: nox.Session, django: str) -> None:
    """Run the suite against the built wheel; arguments go to pytest."""
    session.env.update(PYTHONDEVMODE="1", PYTHONMALLOC="pymalloc")  # as make test does
    extra = "[django52]" if django == "5.2" else ""
    beside = [] if django == "6.1" else PROJECT["project"]["optional-dependencies"][PAGE]
    session.install(f"{built(session)}{extra}", f"django=={django}.*", *group("test"), *beside)
    with session.chdir(elsewhere(session)):
        try:
            session.run("python", "-m", "pytest", *TOGETHER, *session.posargs)
        finally:
            session.run("python", "-m", "testproject.postgres", "remove")


@nox.session(python=LATEST)
def wheel(session: nox.Session) -> None:
    """List the wheel: what is not Python is in it too, and nothing of the tests."""
    path = built(session)
    session.run("python", ".ci/check_wheel.py", str(path))


@nox.session(python=LATEST)
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install("ruff")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session(python=LATEST)
def imports(session: nox.Session) -> None:
    """Check who imports whom."""
    session.install("-e", ".", "import-linter")
    session.run("lint-imports")


@nox.session(python=["3.11", LATEST])
def typing(session: nox.Session) -> None:
    """Check types on Django 5.2 with its backport, and on the newest Django."""
    session.install("-e", ".", *group("test"), *group("dev"))
    session.run("mypy", "--python-version", str(session.python))


@nox.session(python=LATEST)
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    session.install("-e", ".", *group("test"), *group("docs"))
    session.run("sphinx-build", "-W", "-n", "-b", "html", "docs", "docs/_build/html")


@nox.session(python=LATEST)
def coverage(session: nox.Session) -> None:
    """Measure branches, worker processes included; 95 % is the gate."""
    session.install("-e", ".", *group("test"))
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "combine")
    session.run("coverage", "report")


@nox.session(python=LATEST, default=False)
def bench(session: nox.Session) -> None:
    """Measure against the peers."""
    session.install("-e", ".", *group("test"))
    session.run("python", "-m", "benchmarks", *session.posargs)
