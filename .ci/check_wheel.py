"""Tell whether a wheel holds the whole package, and the package alone."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

PACKAGE = Path(__file__).resolve().parent.parent / "django_jobs"
LEFT_OUT = ("__pycache__", ".pyc")


def expected() -> set[str]:
    """Every file of the package in this checkout."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file())
    names = {path.relative_to(PACKAGE.parent).as_posix() for path in files}
    return {name for name in names if not any(part in name for part in LEFT_OUT)}


def main(wheel: str) -> str | None:
    """Return what is wrong with the wheel, if anything is."""
    found = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    if found != expected():
        return f"Missing: {sorted(expected() - found)}; too much: {sorted(found - expected())}"
    for wanted in ("py.typed", ".sql", ".html", "migrations/0001_initial.py"):
        if not any(name.endswith(wanted) for name in found):
            return f"The wheel has no {wanted}."
    print(f"{Path(wheel).name}: {len(found)} files, all there.")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
