"""Errors as text that PostgreSQL can store, whatever the exception does.

The exception is a user's: its methods may raise, lie or answer with megabytes.
So its links are read through the base classes' own slots, each text that its
code makes is asked for behind a shield, and everything has a bound. Local
variables are never read: they may hold secrets.
"""

from __future__ import annotations

import re
import traceback
from collections import deque
from dataclasses import dataclass
from itertools import accumulate, islice, takewhile
from typing import TYPE_CHECKING, Any, Final

from django_jobs.retries import class_name, class_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

_LONGEST_MESSAGE: Final = 500
_LONGEST_PATH: Final = 300
_LOOKED_AT: Final = 2_000  # characters of a message that its short form is made of
_EDGE_FRAMES: Final = 40  # shown at each end of a traceback
_MOST_LINKS: Final = 20  # of a chain of causes
_MOST_CHILDREN: Final = 15  # of one exception group
_MOST_NOTES: Final = 20
_LONGEST_NOTE: Final = 4_000
_MOST_ERRORS: Final = 60  # in one text, chains and groups together
_DEEPEST_GROUP: Final = 5
_MARKER_ROOM: Final = 60
_LAST_BYTE: Final = 0xFF

_UNSTORABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

# Who called the task; their frames say nothing about its error.
_RUNNERS: Final = (
    "django_jobs",
    "django.tasks",
    "django_tasks",
    "asgiref",
    "asyncio",
    "concurrent",
)

_HEADING: Final = "Traceback (most recent call last):"
_CAUSED: Final = "The above exception was the direct cause of the following exception:"
_DURING: Final = "During handling of the above exception, another exception occurred:"


@dataclass(frozen=True, slots=True)
class Described:
    """An error in words: its class, one line, and the whole story."""

    class_path: str
    message: str
    traceback: str


def describe(error: BaseException, *, limit: int) -> Described:
    """Describe ``error`` in storable text of at most ``limit`` characters; never raise."""
    path = storable(shielded(lambda: class_path(type(error)), "unknown"), limit=_LONGEST_PATH)
    name = shielded(lambda: class_name(type(error)), "Exception")
    text = message_of(error)
    return Described(
        class_path=path,
        message=_one_line(f"{name}: {text[:_LOOKED_AT]}" if text else name),
        traceback=shielded(
            lambda: storable("\n".join(_Story(limit).of(error)), limit=limit),
            storable(f"{path}: {text}", limit=limit),
        ),
    )


def message_of(error: BaseException) -> str:
    """Return ``str(error)``, or say what came instead."""
    try:
        return str.__str__(str(error))
    except BaseException as raised:  # noqa: BLE001 - as in shielded
        return f"<no message: __str__ raised {class_name(type(raised))}>"


def shielded(make: Callable[[], str], default: str) -> str:
    """Call ``make``, which may run a user's code; return ``default`` when that raises."""
    try:
        return make()
    except BaseException:  # noqa: BLE001 - a SystemExit from a __str__ must not end a run either
        return default


# Storable text


def storable(text: str, *, limit: int) -> str:
    """Escape what PostgreSQL cannot store; cut the middle out of a long text."""
    if len(text) <= limit:
        escaped = _escaped(text)
        if len(escaped) <= limit:
            return escaped
    return _cut(text, limit)


def _escaped(text: str) -> str:
    return _UNSTORABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code <= _LAST_BYTE else f"\\u{code:04x}"


def _cut(text: str, limit: int) -> str:
    half = (limit - _MARKER_ROOM) // 2
    if half < 1:  # no room to say that something is missing
        return _escaped(text[: _fitting(text[:limit], limit)])
    head = _fitting(text[:half], half)
    tail = len(text) - _fitting(text[: -half - 1 : -1], half)
    marker = f"\n… {tail - head:,} characters left out …\n"
    return f"{_escaped(text[:head])}{marker}{_escaped(text[tail:])}"


def _fitting(text: str, room: int) -> int:
    """How many of the leading characters fit into ``room`` once escaped."""
    if not _UNSTORABLE.search(text):
        return min(len(text), room)
    sizes = accumulate(len(_escaped(character)) for character in text)
    return sum(size <= room for size in sizes)


def _one_line(text: str) -> str:
    line = _escaped(" ".join(text.split()))
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 1]}…"


# The whole story


def links(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return what the error says it was caused by, and what it was raised during."""
    cause = _slot(BaseException, "__cause__", error)
    hidden = cause is not None or _slot(BaseException, "__suppress_context__", error)
    return cause, None if hidden else _slot(BaseException, "__context__", error)


def frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of the error's traceback and their lines, outermost first."""
    step: TracebackType | None = _slot(BaseException, "__traceback__", error)
    while step is not None:
        yield step.tb_frame, step.tb_lineno
        step = step.tb_next


def module_of(frame: FrameType) -> str:
    """Return the name of the module whose code the frame runs."""
    name = dict.get(frame.f_globals, "__name__")
    return name if type(name) is str else ""


def _slot(cls: type, name: str, error: BaseException) -> Any:
    """Read an attribute as the base class has it, whatever a subclass made of it."""
    return cls.__dict__[name].__get__(error)


class _Story:
    """Tells an error with its causes and its children, within bounds."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.told = 0
        self.seen: set[int] = set()  # ids of the errors in the chains so far

    def of(self, error: BaseException, depth: int = 0) -> Iterator[str]:
        """Yield the lines: what it was caused by first, as Python does."""
        chain, rest = self._chain(error)
        if rest:
            yield f"({rest})\n"
        for heading, link in reversed(chain):
            yield from self._one(link, depth)
            if heading:
                yield f"\n{heading}\n"

    def _chain(self, error: BaseException) -> tuple[list[tuple[str, BaseException]], str]:
        """List the error and what led to it, newest first, and why the list may stop early."""
        chain = [("", error)]
        self.seen.add(id(error))
        while True:
            cause, context = links(chain[-1][1])
            earlier = context if cause is None else cause
            if earlier is None:
                return chain, ""
            if id(earlier) in self.seen:
                return chain, "what led to this is told elsewhere in this text"
            if len(chain) == _MOST_LINKS:
                return chain, "earlier causes are left out"
            self.seen.add(id(earlier))
            chain.append((_DURING if cause is None else _CAUSED, earlier))

    def _one(self, error: BaseException, depth: int) -> Iterator[str]:
        self.told += 1
        calls = list(_calls(error))
        if calls:
            yield _HEADING
            yield from calls
        yield self._last_line(error)
        yield from _notes(error)
        if issubclass(type(error), BaseExceptionGroup):
            yield from self._children(_slot(BaseExceptionGroup, "exceptions", error), depth + 1)

    def _last_line(self, error: BaseException) -> str:
        name = class_path(type(error)).removeprefix("builtins.")
        text = storable(message_of(error), limit=self.limit)
        return f"{name}: {text}" if text else name

    def _children(self, errors: tuple[BaseException, ...], depth: int) -> Iterator[str]:
        shown = 0
        for error in errors[:_MOST_CHILDREN]:
            if depth > _DEEPEST_GROUP or self.told >= _MOST_ERRORS:
                break
            shown += 1
            yield f"  +-- {shown} of {len(errors):,} --"
            for line in self.of(error, depth):
                yield "  | " + line.replace("\n", "\n  | ")
        if shown < len(errors):
            yield f"  … {len(errors) - shown:,} more …"


def _calls(error: BaseException) -> Iterator[str]:
    """Yield the lines of the traceback without the runner's frames at its head."""
    ours = sum(1 for _ in takewhile(lambda call: _is_runner(module_of(call[0])), frames(error)))
    calls = list(_lines(islice(frames(error), ours, None)))
    # Nothing but runner: then it is the runner that failed.
    yield from calls or _lines(frames(error))


def _is_runner(module: str) -> bool:
    return any(module == runner or module.startswith(f"{runner}.") for runner in _RUNNERS)


def _lines(calls: Iterator[tuple[FrameType, int]]) -> Iterator[str]:
    head = list(islice(calls, _EDGE_FRAMES))
    tail: deque[tuple[FrameType, int]] = deque(maxlen=_EDGE_FRAMES)
    left_out = -_EDGE_FRAMES
    for call in calls:
        tail.append(call)
        left_out += 1
    yield from _source(head)
    if left_out > 0:
        yield f"  … {left_out:,} more calls …"
    yield from _source(list(tail))


def _source(calls: list[tuple[FrameType, int]]) -> list[str]:
    try:
        summary = traceback.StackSummary.extract(iter(calls), capture_locals=False)
        return [lines.rstrip("\n") for lines in summary.format()]
    except BaseException:  # noqa: BLE001 - a module's loader, asked for its source, may raise
        return [
            f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
            for frame, line in calls
        ]


def _notes(error: BaseException) -> Iterator[str]:
    """Yield what was added by ``add_note``; other things of that name are left alone."""
    notes = dict.get(_slot(BaseException, "__dict__", error), "__notes__")
    if type(notes) is list:
        for note in notes[:_MOST_NOTES]:
            if type(note) is str:
                yield storable(note, limit=_LONGEST_NOTE)
