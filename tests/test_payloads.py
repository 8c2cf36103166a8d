from __future__ import annotations

import datetime as dt
import json
import sys
import tracemalloc
from collections import OrderedDict, UserDict, namedtuple
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from itertools import pairwise
from types import FrameType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_jobs.exceptions import InvalidPayload
from django_jobs.payloads import MAX_DEPTH, arguments, dumps, loads

MIB = 1024 * 1024


def dump(value: object, where: str = "kwargs", limit: int = MIB) -> str:
    return dumps(value, where=where, limit=limit)


def refusal(value: object, where: str = "kwargs", limit: int = MIB) -> str:
    with pytest.raises(InvalidPayload) as caught:
        dump(value, where, limit)
    return str(caught.value)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 9


class Plain(Enum):
    A = "a"


class Weight(float):
    def __repr__(self):
        return "heavy"


class Safe(str):
    """As Django's SafeString: text that overrides what text does."""

    __slots__ = ()

    def __str__(self):
        raise RuntimeError

    def __repr__(self):
        raise RuntimeError

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self is other


class Liar(dict[str, int]):
    def items(self):
        return [("other", 1)]

    def __iter__(self):
        raise RuntimeError

    def __len__(self):
        raise RuntimeError


class LyingList(list[int]):
    def __iter__(self):
        return iter([object()])

    def __len__(self):
        return 10**9


class Hostile:
    @property  # type: ignore[misc]
    def __class__(self):
        raise RuntimeError

    def __repr__(self):
        raise RuntimeError

    __str__ = __len__ = __iter__ = __bool__ = __repr__


class Pretender:
    __class__ = str  # type: ignore[assignment]


class HostileMeta(type):
    def __hash__(cls):
        raise RuntimeError

    def __getattribute__(cls, name):
        raise RuntimeError


def of_hostile_class() -> object:
    """Make the class here: pytest would ask one in this module what it is."""
    return HostileMeta("Unhashable", (), {})()


# What JSON can say

characters = st.characters(codec="utf-8") | st.sampled_from("\x00\ud800\udfff\U0001f600")
texts = st.text(characters).filter(
    lambda text: not any("\ud800" <= a < "\udc00" <= b < "\ue000" for a, b in pairwise(text))
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner) | st.tuples(inner, inner),
)


def listed(value: object) -> object:
    """Return the value with lists for tuples, as JSON gives it back."""
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value


@given(values)
@example("\x00")
@example(["\ud800", {"\udfff": "\x00"}])
@example([1e16, -0.0, 10**300, True, 1, 1.0])
def test_what_is_written_is_read_back_the_same(value: Any) -> None:
    # repr also tells 1 from 1.0 and True, 0.0 from -0.0, and one order of keys from another
    assert repr(listed(value)) == repr(loads(dump(value)))


@given(values)
def test_text_is_compact_ascii(value: Any) -> None:
    text = dump(value)

    assert text.isascii()
    assert "\x00" not in text
    assert json.dumps(value, separators=(",", ":")) == text


def test_surrogates_and_nul_are_written_as_escapes() -> None:
    assert r'["\u0000","\ud800"]' == dump(["\x00", "\ud800"])


def test_members_of_subclasses_are_written_as_the_plain_value() -> None:
    value = [Colour.RED, Level.HIGH, Weight(1.5), Safe("x"), {Colour.RED: Level.HIGH}]

    assert '["red",9,1.5,"x",{"red":9}]' == dump(value)


def test_containers_are_written_as_they_are_stored_whatever_they_say() -> None:
    pair = namedtuple("pair", "a b")  # noqa: PYI024 - the plainest of its kind

    value = [Liar(a=1), LyingList([1]), OrderedDict(b=1, a=2), pair(1, 2)]

    assert '[{"a":1},[1],{"b":1,"a":2},[1,2]]' == dump(value)


def test_one_value_in_two_places_is_no_cycle() -> None:
    shared = {"a": [1]}

    assert '[{"a":[1]},{"a":[1]}]' == dump([shared, shared])
    assert '[{"a":[1]},{"a":[1]},"red"]' == dump([shared, shared, Colour.RED])


@pytest.mark.parametrize("leaf", [1, Colour.RED])
def test_depth_ends_where_the_message_says(leaf: Any) -> None:
    deepest = nested(MAX_DEPTH)
    innermost = deepest
    while innermost:
        innermost = innermost[0]
    innermost.append(leaf)

    assert deepest == loads(dump(deepest))
    assert "nested more than 200 deep" in refusal([deepest])


def test_a_value_at_the_stack_limit_never_raises_recursion_error() -> None:
    def down(room: int) -> str:
        return down(room - 1) if room else dump(nested(MAX_DEPTH))

    depth = 0
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    for room in (60, 100, 200):
        try:
            assert down(sys.getrecursionlimit() - depth - room) == "[" * 200 + "]" * 200
        except InvalidPayload as refused:
            assert "nested too deep" in str(refused)  # noqa: PT017 - both ends are right


# What JSON cannot say


REFUSED: list[tuple[Any, str]] = [
    (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "datetime is not JSON; pass value.isoformat()"),
    (dt.date(2024, 1, 2), "date is not JSON; pass value.isoformat()"),
    (dt.time(1), "time is not JSON; pass value.isoformat()"),
    (dt.timedelta(1), "timedelta is not JSON; pass value.total_seconds()"),
    (Decimal("NaN"), "Decimal is not JSON; pass str(value)"),
    (UUID(int=1), "UUID is not JSON; pass str(value)"),
    (Plain.A, "Plain is not JSON; pass value.value"),
    ({1}, "set is not JSON; pass sorted(value)"),
    (frozenset(), "frozenset is not JSON; pass sorted(value)"),
    (b"x", "bytes is not JSON; pass value.hex() or base64 text"),
    ((n for n in [1]), "generator is not JSON; pass list(value)"),
    ({}.keys(), "dict_keys is not JSON; pass list(value)"),
    (UserDict(), "UserDict is not JSON; pass text, a number, a list or a dict made from it"),
    (object, "type is not JSON; pass text, a number, a list or a dict made from it"),
    (float("nan"), "a float that is NaN or infinite is not JSON; pass None or text"),
    (float("-inf"), "a float that is NaN or infinite is not JSON; pass None or text"),
    (10**5000, "int has too many digits for JSON text; pass hex(value)"),
    ({1: 2}, "a key is of type int, not text; pass str(key)"),
    ({None: 2}, "a key is of type NoneType, not text; pass str(key)"),
    ("\ud83d\ude00", "two surrogates in a row are not JSON; pass the one character they mean"),
]


@pytest.mark.parametrize(
    ("value", "message"), REFUSED, ids=[f"{n} {text}" for n, (_, text) in enumerate(REFUSED)]
)
def test_refusal_names_path_type_and_cure(value: Any, message: Any) -> None:
    assert f"kwargs.items[1].price: {message}" == refusal({"items": [0, {"price": value}]})
    assert f"result: {message}" == refusal(value, where="result")


def test_model_instances_and_querysets_are_refused_with_their_cure() -> None:
    # Stand-ins with the real paths: this module must not need Django to be set up.
    model = type("Model", (), {"__module__": "django.db.models.base"})
    order = type("Order", (model,), {"__module__": "shop.models"})
    queryset = type("QuerySet", (), {"__module__": "django.db.models.query"})

    assert "args[0]: Order is not JSON; pass obj.pk" == refusal((order(),), where="args")
    assert "args[0]: QuerySet is not JSON; pass the primary keys" == refusal((queryset(),), "args")


@pytest.mark.parametrize("hostile", [Hostile, Pretender, of_hostile_class])
def test_a_hostile_object_is_refused_like_any_other(hostile: Any) -> None:
    value = hostile()

    assert refusal([value]).startswith("kwargs[0]: ")
    assert refusal({"a": [1, {"b": value}]}).startswith("kwargs.a[1].b: ")


def test_first_fault_in_the_order_of_the_text_is_named() -> None:
    assert refusal({"a": [1, {2}], "b": object()}).startswith("kwargs.a[1]: set")


def test_keys_that_are_one_text_are_refused() -> None:
    assert refusal({"a": {"x": 1, Safe("x"): 2}}).startswith("kwargs.a: two keys")


def test_long_and_odd_keys_are_quoted_and_cut_in_paths() -> None:
    assert 'kwargs["two words"]: set' in refusal({"two words": set()})
    assert 'kwargs["\\u00e9"]: set' in refusal({"é": set()})
    assert f'kwargs["{"k" * 40}"…]: set' in refusal({"k" * 5000: set()})
    assert len(refusal({"k" * 5000: nested(150), "z": nested(MAX_DEPTH + 9)})) < 500


@given(st.lists(values.map(lambda value: {"k": value}), min_size=1, max_size=3))
def test_path_leads_to_the_value_that_is_refused(items: Any) -> None:
    items.append({"k": [object()]})

    assert refusal(items).startswith(f"kwargs[{len(items) - 1}].k[0]: object is not JSON")


def test_no_message_holds_a_value() -> None:
    secret = "S3CRET"

    class Secret:
        def __repr__(self):
            return secret

    for value in (Secret(), secret.encode(), {secret.encode(): 1}, [secret, {secret}], (Secret,)):
        with pytest.raises(InvalidPayload) as caught:
            dump(value)
        assert secret not in str(caught.value)
        assert caught.value.__suppress_context__


def test_cycles_are_refused() -> None:
    ring: list[Any] = [1]
    ring.append({"again": (ring,)})
    wheel: dict[str, Any] = {}
    wheel["self"] = [wheel] * 3

    assert refusal(ring).startswith("kwargs[1].again[0]: this value contains itself (a cycle)")
    assert refusal(wheel).startswith("kwargs.self[0]: this value contains itself (a cycle)")


def test_depth_without_end_is_refused() -> None:
    assert "nested more than 200 deep; pass flatter data" in refusal(nested(100_000))


def test_refusal_is_both_a_type_error_and_a_value_error() -> None:
    for kind in (TypeError, ValueError):
        with pytest.raises(kind):
            dump(set())


# Size


@given(values)
def test_limit_is_exact(value: Any) -> None:
    size = len(dump(value))

    assert dump(value, limit=size)
    assert f"kwargs: {size:,} bytes" in refusal(value, limit=size - 1) or (
        "kwargs: at least" in refusal(value, limit=size - 1)
    )


def test_limit_is_exact_for_values_that_need_a_closer_look() -> None:
    for value in (Level.HIGH, [Colour.RED, "😀"], {"a": {}, Colour.RED: [Level.HIGH]}, Safe("")):
        assert dump(value, limit=len(dump(value)))
        assert "bytes as JSON text" in refusal(value, limit=len(dump(value)) - 1)


def test_too_long_names_size_limit_and_setting() -> None:
    with pytest.raises(InvalidPayload) as caught:
        dumps("x" * 1000, where="result", limit=1001, setting="max_result_bytes")

    assert (
        "result: 1,002 bytes as JSON text, but max_result_bytes is 1,001; "
        "store the data elsewhere and pass a key to it"
    ) == str(caught.value)


def test_shared_items_cannot_multiply_past_the_limit() -> None:
    lists: list[Any] = []
    texts = ["x" * MIB] * 1000
    for _ in range(100):
        lists = [lists, lists]

    for value in (lists, texts, [Colour.RED, texts], {"x" * MIB: 1}, {"a": lists, "b": Safe()}):
        tracemalloc.start()
        try:
            assert "kwargs: at least" in refusal(value, limit=MIB // 16)
            assert tracemalloc.get_traced_memory()[1] < 30 * MIB
        finally:
            tracemalloc.stop()


# Arguments


def test_arguments_are_written_as_two_texts() -> None:
    assert ('[42,"x"]', '{"customer":7}') == arguments((42, "x"), {"customer": 7}, limit=MIB)
    assert ("[]", "{}") == arguments((), {}, limit=MIB)


def test_arguments_name_their_paths() -> None:
    with pytest.raises(InvalidPayload, match=r"^args\[1\]\.when: date is not JSON"):
        arguments((1, {"when": dt.date(2024, 1, 2)}), {}, limit=MIB)
    with pytest.raises(InvalidPayload, match=r"^kwargs\.customer: UUID is not JSON"):
        arguments((), {"customer": UUID(int=0)}, limit=MIB)


def test_arguments_share_one_limit() -> None:
    args, kwargs = ("x" * 60,), {"y": "y" * 60}

    arguments(args, kwargs, limit=132)
    with pytest.raises(InvalidPayload, match=r"^args and kwargs: 132 bytes .* is 131"):
        arguments(args, kwargs, limit=131)
