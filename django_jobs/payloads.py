"""Arguments and results as JSON text: everything JSON can say, refused else.

``dumps`` looks at a value in two ways. ``_is_plain`` decides fast that a value
is made of JSON's own types; whatever it does not know goes to ``_Copy``, which
walks in the order of the text, copies what may be written and names the path
to the first thing that may not. No message holds a value, which may be secret.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django_jobs.exceptions import InvalidPayload
from django_jobs.retries import class_name, class_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_DEPTH: Final = 200  # deep enough for data, shallow enough to be read in any stack

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_BOXES: Final = frozenset({list, tuple, dict})
_PLAIN: Final = _SCALARS | _BOXES

# JSON writes each half as an escape and reads the two back as one character.
_SPLIT_CHARACTER: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")

_LONGEST_KEY: Final = 40
_LONGEST_PATH: Final = 300

_encode = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":")
).encode

_CURES: Final = {
    path: cure
    for cure, paths in {
        "pass value.isoformat()": "datetime.datetime datetime.date datetime.time",
        "pass value.total_seconds()": "datetime.timedelta",
        "pass str(value)": "decimal.Decimal fractions.Fraction uuid.UUID pathlib.PurePath"
        " pathlib._local.PurePath django.utils.functional.Promise",
        "pass value.value": "enum.Enum",
        "pass sorted(value)": "builtins.set builtins.frozenset",
        "pass value.hex() or base64 text": "builtins.bytes builtins.bytearray builtins.memoryview",
        "pass list(value)": "builtins.generator builtins.map builtins.filter builtins.zip"
        " builtins.range builtins.dict_keys builtins.dict_values builtins.dict_items"
        " collections.deque",
        "await it and pass what it returns": "builtins.coroutine",
        "pass obj.pk": "django.db.models.base.Model",
        "pass the primary keys": "django.db.models.query.QuerySet"
        " django.db.models.manager.BaseManager",
        "save it and pass its name": "django.core.files.base.File",
    }.items()
    for path in paths.split()
}
_CURE: Final = "pass text, a number, a list or a dict made from it"


def dumps(value: object, *, where: str, limit: int, setting: str = "max_payload_bytes") -> str:
    """Write ``value`` as compact ASCII JSON text of at most ``limit`` bytes.

    ``where`` begins the path in the message of ``InvalidPayload``; ``setting``
    is the option that ``limit`` comes from. Tuples become lists; members of
    subclasses of str, int, float, list and dict are written as the plain value.
    """
    text = _fast(value, limit)
    if text is None:
        plain = _Copy(where, limit, setting).of(value)
        try:
            text = _encode(plain)
        except RecursionError:
            raise InvalidPayload(f"{where}: nested too deep for the stack left here") from None
    if len(text) > limit:
        raise InvalidPayload(_too_long(where, f"{len(text):,}", limit, setting))
    return text


def loads(text: str) -> Any:
    """Read a text that ``dumps`` wrote."""
    return json.loads(text)


def arguments(args: Sequence[object], kwargs: dict[str, Any], *, limit: int) -> tuple[str, str]:
    """Write a call's arguments as two texts, together at most ``limit`` bytes."""
    texts = dumps(args, where="args", limit=limit), dumps(kwargs, where="kwargs", limit=limit)
    size = len(texts[0]) + len(texts[1])
    if size > limit:
        raise InvalidPayload(_too_long("args and kwargs", f"{size:,}", limit, "max_payload_bytes"))
    return texts


def _too_long(where: str, size: str, limit: int, setting: str) -> str:
    return (
        f"{where}: {size} bytes as JSON text, but {setting} is {limit:,}; "
        "store the data elsewhere and pass a key to it"
    )


def _fast(value: object, limit: int) -> str | None:
    """Write a plain value, or say None when a closer look is needed."""
    try:
        text = _encode(value) if _is_plain(value, limit) else None
    except Exception:  # noqa: BLE001 - the closer look finds it again and names its path
        return None
    return None if text is None or "\\ud" in text else text


def _is_plain(value: object, room: int) -> bool:
    """Whether ``value`` holds JSON's own types only and may be short enough.

    ``room`` also ends the walk of a cycle, and of lists that share their items.
    """
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for box in level:
            items, room = _opened(box, room)
            kinds = set(map(type, items))
            if room < 0 or not kinds <= _PLAIN:
                return False
            if str in kinds:
                room -= sum([len(item) for item in items if type(item) is str])
            if not kinds <= _SCALARS:
                deeper += [item for item in items if type(item) in _BOXES]
        if not deeper:
            return room >= 0
        level = deeper
    return False


def _opened(box: Any, room: int) -> tuple[Iterable[Any], int]:
    """What is in ``box``, and the room left; no room for a key that is no text."""
    kind = type(box)
    if kind is dict:
        if not set(map(type, box)) <= {str}:
            return (), -1
        return box.values(), room - 4 * len(box) - sum(map(len, box))
    if kind is list or kind is tuple:
        return box, room - 2 * len(box)
    return (box,), room


class _Refused(Exception):  # becomes an InvalidPayload, with its path
    """Why a value cannot be written, without the path to it."""


@dataclass(slots=True)
class _Box:
    """A list or dict that is being copied."""

    id: int
    entries: Iterator[tuple[Any, Any]]
    copy: Any
    step: int | str | None = None

    def put(self, value: object) -> None:
        if type(self.copy) is list:
            self.copy.append(value)
        else:
            self.copy[self.step] = value

    def enter(self, step: Any) -> int:
        """Move to an index or to a key; return the least bytes that it takes."""
        if type(self.copy) is list:
            self.step = step
            return 1
        self.step = None  # a refused key has no path of its own
        key = _key(step)
        if key in self.copy:
            raise _Refused("two keys are the same text; keep one of them")
        self.step = key
        return len(key) + 4


class _Copy:
    """Copies a value into JSON's own types, iteratively: data has any depth."""

    def __init__(self, where: str, limit: int, setting: str) -> None:
        self.where = where
        self.limit = limit
        self.setting = setting
        self.size = -1  # bytes that the text has at the very least; the value has no comma
        self.boxes: list[_Box] = []
        self.open: set[int] = set()

    def of(self, value: object) -> object:
        """Copy ``value``, or raise InvalidPayload naming what cannot be written."""
        root: list[object] = []
        self.boxes = [_Box(0, iter([(0, value)]), root)]
        try:
            while self.boxes:
                self._advance(self.boxes[-1])
        except _Refused as refused:
            raise InvalidPayload(f"{self._path()}: {refused}") from None
        return root[0]

    def _advance(self, box: _Box) -> None:
        entry = next(box.entries, None)
        if entry is None:
            self.boxes.pop()
            self.open.discard(box.id)
            return
        step, value = entry
        self._count(box.enter(step))
        box.put(self._converted(value))

    def _converted(self, value: object) -> object:
        kind = type(value)
        if issubclass(kind, (list, tuple, dict)):
            return self._opened(value, kind)
        plain = _scalar(value, kind)
        self._count(len(plain) + 2 if type(plain) is str else 1)
        return plain

    def _opened(self, value: Any, kind: type) -> object:
        """Begin the copy of a list or dict; the walk fills it in later."""
        if id(value) in self.open:
            raise _Refused("this value contains itself (a cycle); pass data without cycles")
        if len(self.boxes) > MAX_DEPTH:
            raise _Refused(f"nested more than {MAX_DEPTH} deep; pass flatter data")
        # The base types' own methods: those of a subclass may do anything.
        if issubclass(kind, dict):
            box = _Box(id(value), iter(list(dict.items(value))), {})
        elif issubclass(kind, tuple):
            box = _Box(id(value), enumerate(tuple.__iter__(value)), [])
        else:
            box = _Box(id(value), enumerate(list.copy(value)), [])
        self._count(1)
        self.boxes.append(box)
        self.open.add(box.id)
        return box.copy

    def _count(self, size: int) -> None:
        """Stop at once when the text will be too long: shared items multiply."""
        self.size += size
        if self.size > self.limit:
            least = f"at least {self.size:,}"
            raise InvalidPayload(_too_long(self.where, least, self.limit, self.setting))

    def _path(self) -> str:
        steps = [box.step for box in self.boxes[1:] if box.step is not None]
        path = self.where + "".join(map(_step, steps))
        half = _LONGEST_PATH // 2
        return path if len(path) <= _LONGEST_PATH else f"{path[:half]}…{path[-half:]}"


def _key(key: Any) -> str:
    kind = type(key)
    if not issubclass(kind, str):
        raise _Refused(f"a key is of type {class_name(kind)}, not text; pass str(key)")
    return _text(key)


def _scalar(value: Any, kind: type) -> object:
    """The plain value of ``value``, read past whatever a subclass overrides."""
    if value is None or kind is bool:
        return value
    if issubclass(kind, str):
        return _text(value)
    if issubclass(kind, int):
        return _whole(int.__int__(value))
    if issubclass(kind, float):
        return _finite(float.__float__(value))
    paths = map(class_path, type.mro(kind))
    cure = next((_CURES[path] for path in paths if path in _CURES), _CURE)
    raise _Refused(f"{class_name(kind)} is not JSON; {cure}")


def _text(value: str) -> str:
    text = str.__str__(value)
    if _SPLIT_CHARACTER.search(text):
        raise _Refused("two surrogates in a row are not JSON; pass the one character they mean")
    return text


def _whole(value: int) -> int:
    try:
        int.__repr__(value)
    except ValueError:  # Python refuses to write, and would refuse to read, so many digits
        raise _Refused("int has too many digits for JSON text; pass hex(value)") from None
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise _Refused("a float that is NaN or infinite is not JSON; pass None or text")
    return value


def _step(step: int | str) -> str:
    if type(step) is int:
        return f"[{step}]"
    key = str(step)
    if len(key) <= _LONGEST_KEY and key.isascii() and key.isidentifier():
        return f".{key}"
    return f"[{json.dumps(key[:_LONGEST_KEY])}{'…' if len(key) > _LONGEST_KEY else ''}]"
