"""Which dead jobs died of the same thing.

Two errors are the same when task, class, message and the calls in the user's
own code are, once ids, times and numbers are taken out of the message and line
numbers out of the calls: neither another customer nor a deploy makes a new one.
"""

from __future__ import annotations

import re
import sysconfig
from collections import deque
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django_jobs.retries import class_path
from django_jobs.tracebacks import frames, links, message_of, module_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_DIGITS: Final = 16
_TOP_FRAMES: Final = 3
_MOST_LINKS: Final = 20
_MOST_FRAMES: Final = 1_000  # the innermost of a runaway recursion
_LOOKED_AT: Final = 2_000
# What is kept is shorter than what is looked at: else ids of other lengths
# would move the end of the message, and with it the fingerprint.
_KEPT: Final = 500

_ANY: Final = "‹n›"  # noqa: RUF001 - nothing that a message is likely to hold
_VARIABLE: Final = re.compile(
    r"""
      (?P<scheme>\b[a-z][a-z0-9+]{1,15}://) (?:[^\s/@?#'"<>]*@)?
      (?P<host>[^\s/:?#'"<>]*) [^\s'"<>]*
    | [\w.!\#$%&*+?^`{|}~-]{1,64} @ [\w-]{1,63} (?:\.[\w-]{1,63})+
    | \b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b
    | \d{4}-\d\d-\d\d (?:[T ]\d\d:\d\d (?::\d\d(?:[.,]\d+)?)? (?:Z|[+-]\d\d:?\d\d)?)?
    | (?<!\w)'[^'\n]{21,}'
    | (?<!\w)"[^"\n]{21,}"
    | \b0x[0-9a-f]+\b
    | \b(?=[a-f]*[0-9])[0-9a-f]{6,}\b
    | \d[\d.,]*\d
    """,
    re.VERBOSE | re.IGNORECASE,
)

_LIBRARIES: Final = frozenset({"site-packages", "dist-packages"})
_STDLIB: Final = frozenset(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))


def fingerprint(task_path: str, error: BaseException) -> str:
    """Return 16 hex digits that are the same for deaths of the same kind; never raise."""
    try:
        parts = [task_path, *_parts(task_path, error)]
    except Exception:  # noqa: BLE001 - a group by task alone is better than no death recorded
        parts = [task_path]
    text = "\0".join(parts).encode(errors="backslashreplace")
    return sha256(text).hexdigest()[:_DIGITS]


def normalised(message: str) -> str:
    """Return the message's beginning without what differs from job to job."""
    return _VARIABLE.sub(_constant, message[:_LOOKED_AT])[:_KEPT]


def _constant(match: re.Match[str]) -> str:
    return f"{match['scheme']}{match['host']}" if match["scheme"] else _ANY


def _parts(task_path: str, error: BaseException) -> Iterator[str]:
    yield class_path(type(error))
    yield normalised(message_of(error))
    app = task_path.split(".", 1)[0]
    # A wrapper is raised in one place for many faults: the innermost cause that
    # passed through the user's code says which fault it is.
    for link in reversed(list(_causes(error))):
        calls = _app_calls(link, app)
        if calls:
            yield class_path(type(link))
            yield from calls
            return


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and the causes that it wraps, outermost first."""
    link: BaseException | None = error
    for _ in range(_MOST_LINKS):
        if link is None:
            return
        yield link
        link, _context = links(link)


def _app_calls(error: BaseException, app: str) -> list[str]:
    """Name the innermost functions of the user's own code, each once."""
    last = deque((frame for frame, _ in frames(error)), maxlen=_MOST_FRAMES)
    names = (_function(frame) for frame in reversed(last) if _is_app(frame, app))
    return list(islice(dict.fromkeys(names), _TOP_FRAMES))


def _function(frame: FrameType) -> str:
    return f"{module_of(frame)}:{frame.f_code.co_qualname}"


def _is_app(frame: FrameType, app: str) -> bool:
    """Whether the frame runs the project's code: the task's package, or no library."""
    root = module_of(frame).split(".", 1)[0]
    return root == app or (root != "django_jobs" and not _is_library(frame.f_code.co_filename))


@lru_cache(maxsize=4096)
def _is_library(filename: str) -> bool:
    path = Path(filename)
    return (
        filename.startswith("<")
        or not _LIBRARIES.isdisjoint(path.parts)
        or any(path.is_relative_to(library) for library in _STDLIB)
    )
