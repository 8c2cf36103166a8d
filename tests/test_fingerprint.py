from __future__ import annotations

import json
import re
import time
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_jobs.fingerprint import fingerprint, normalised

TASK = "shop.tasks.ship"

SHIP = """
def ship(order):
    pack(order)

def pack(order):
    raise ValueError(f"no box for {order}")

def wrapped(function, *args):
    try:
        function(*args)
    except Exception as error:
        raise RuntimeError("task failed") from error
"""


def module(name: str, source: str = SHIP, folder: str = "/srv") -> Any:
    """Make a module whose frames say that they are of ``name`` in ``folder``."""
    made: Any = ModuleType(name)
    exec(compile(source, f"{folder}/{name}.py", "exec"), vars(made))
    return made


def died(function: Any, *args: object) -> BaseException:
    """Return what the call raises, without the frames of this module."""
    error: BaseException = AssertionError("nothing was raised")
    try:
        function(*args)
    except BaseException as raised:  # noqa: BLE001 - hostile ones too
        error = raised
    step = BaseException.__dict__["__traceback__"].__get__(error)
    while step is not None and step.tb_frame.f_code.co_filename == __file__:
        step = step.tb_next
    return BaseException.with_traceback(error, step)


def of(function: Any, *args: object, task: str = TASK) -> str:
    return fingerprint(task, died(function, *args))


shop = module("shop.tasks")


# What is the same


def test_it_is_16_hex_digits() -> None:
    assert re.fullmatch("[0-9a-f]{16}", of(shop.ship, 1234))


def test_it_is_the_same_in_every_process_and_version() -> None:
    assert "6bf1ff1bdbc412d6" == of(shop.ship, 1234)


def test_other_ids_do_not_change_it() -> None:
    assert of(shop.ship, 1234) == of(shop.ship, 98) == of(shop.ship, UUID(int=7))


def test_moved_lines_do_not_change_it() -> None:
    moved = module("shop.tasks", "# a new release\n\n" + SHIP.replace("):\n", "):\n    'words'\n"))

    assert of(shop.ship, 42) == of(moved.ship, 42)


def test_another_folder_does_not_change_it() -> None:
    assert of(shop.ship, 42) == of(module("shop.tasks", folder="/opt/releases/7").ship, 42)


def test_who_called_the_project_does_not_change_it() -> None:
    source = "def run(task, *args):\n    task(*args)\n"
    runner = module("django_jobs.worker.runs", source)
    library = module("celery_like", source, folder="/venv/lib/python3.11/site-packages")

    assert of(shop.ship, 42) == of(runner.run, library.run, shop.ship, 42)


def test_library_frames_below_the_project_do_not_change_it() -> None:
    source = (
        "def check(order):\n    raise ValueError('no')\n\ndef deeper(order):\n    check(order)\n"
    )
    library = module("boxes", source, folder="/venv/lib/python3.11/site-packages")
    calls = module("shop.calls", "def ship(check, order):\n    check(order)\n")

    assert of(calls.ship, library.check, 42) == of(calls.ship, library.deeper, 42)


# What differs


def test_other_tasks_classes_messages_and_functions_differ() -> None:
    class OtherError(ValueError):
        pass

    def other(_order: object) -> None:
        raise OtherError("no box for 42")

    prints = {
        of(shop.ship, 42),
        of(shop.ship, 42, task="shop.tasks.send"),
        of(shop.ship, "the moon"),
        of(shop.pack, 42),
        of(module("shop.other").ship, 42),
        of(other, 42),
    }

    assert 6 == len(prints)


def test_a_wrapper_differs_by_the_calls_of_what_it_wraps() -> None:
    assert of(shop.wrapped, shop.ship, 42) == of(shop.wrapped, shop.ship, 43)
    assert of(shop.wrapped, shop.ship, 42) != of(shop.wrapped, shop.pack, 42)
    assert of(shop.wrapped, shop.ship, 42) != of(shop.ship, 42)


def test_the_cause_is_followed_to_the_first_calls_of_the_project() -> None:
    source = "def post():\n    raise OSError('refused')\n"
    library = module("web", source, folder="/venv/lib/python3.11/site-packages")

    def wrapper(cause: BaseException) -> BaseException:
        error = RuntimeError("failed")
        error.__cause__ = cause
        return error

    deep, deeper = wrapper(died(shop.ship, 42)), wrapper(died(shop.pack, 42))
    assert fingerprint(TASK, deep) != fingerprint(TASK, deeper)
    deep.__cause__.__cause__ = died(library.post)  # type: ignore[union-attr]
    assert fingerprint(TASK, deep) != fingerprint(TASK, wrapper(died(library.post)))


def test_a_project_that_is_installed_as_a_package_has_calls_too() -> None:
    installed = module("shop.tasks", folder="/venv/lib/python3.11/site-packages")

    assert of(shop.ship, 42) == of(installed.ship, 42)


# Messages


@pytest.mark.parametrize(
    ("message", "same"),
    [
        ("order 1234 of 5", "order # of 5"),
        ("row 12,345.67 is bad", "row # is bad"),
        ("item17b", "item#b"),
        ("no 6f1c0c1e-1c3d-4b5a-8f00-0123456789AB here", "no # here"),
        ("mail to ann.lee+x@mail.example.org bounced", "mail to # bounced"),
        ("GET https://api.example.org:8443/v1/orders/7?x=y gave 503",
         "GET https://api.example.org gave #"),
        ("postgresql://u:pw@db12/shop: refused", "postgresql://db12 refused"),
        ("at 2024-02-03T04:05:06.789+01:00, again", "at #, again"),
        ("since 2024-02-03 04:05", "since #"),
        ("on 2024-02-03", "on #"),
        ("<Order object at 0x7f3a2b>", "<Order object at #>"),
        ("commit 9fceb02d lost", "commit # lost"),
        ("a facade decade", "a facade decade"),
        ("key 'customer-of-the-year-1' unknown", "key # unknown"),
        ('key "customer-of-the-year-1" unknown', "key # unknown"),
        ("key 'colour' unknown", "key 'colour' unknown"),
        ("can't open, won't retry, shouldn't ask", "can't open, won't retry, shouldn't ask"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_varies_is_taken_out_of_messages(message: str, same: str) -> None:
    assert same == normalised(message).replace("\u2039n\u203a", "#")


ids = (
    st.integers(10)
    | st.uuids()
    | st.emails().filter(lambda address: not set("/='") & set(address))
    | st.datetimes().map(lambda at: at.isoformat())
    | st.text("0123456789abcdef", min_size=8, max_size=40).map("0x{}".format)
    | st.text(st.characters(exclude_characters="\n'"), min_size=21).map("'{}'".format)
).map(str)


@given(ids, ids)
def test_no_id_changes_the_fingerprint(one: str, other: str) -> None:
    assert of(shop.ship, one) == of(shop.ship, other)


@given(st.lists(st.integers(10, 10**12), min_size=150, max_size=400))
def test_ids_of_other_lengths_do_not_move_the_end_of_a_long_message(numbers: list[int]) -> None:
    message = " ".join(map(str, numbers))

    assert normalised(" ".join(["42"] * 400)) == normalised(message)


# Whatever the exception does


def test_hostile_errors_have_a_fingerprint() -> None:
    class Hostile(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise SystemExit(name)

        def __str__(self) -> str:
            raise KeyboardInterrupt

        __cause__ = property(__str__)

    def fail() -> None:
        raise Hostile

    assert of(fail) == of(fail)


def test_cycles_groups_and_bare_errors_have_a_fingerprint() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    for error in (
        first,
        ExceptionGroup("", [first] * 1000),
        ValueError("\ud800\x00"),
        SystemExit(),
    ):
        assert fingerprint(TASK, error) == fingerprint(TASK, error)
    assert 16 == len(fingerprint("\ud800", first))


def test_a_runaway_recursion_is_one_kind() -> None:
    loop = module("shop.loop", "def loop(n):\n    loop(n + 1)\n")

    assert of(loop.loop, 1) == of(loop.loop, 2)


@pytest.mark.parametrize(
    "text", ["x", "'", "a://", "1", "a.@", "0x", "2024-", "é'\"", "a@b.", "f" * 7 + " "]
)
def test_a_huge_message_costs_little(text: str) -> None:
    error = ValueError(text * (50_000_000 // len(text)))
    before = time.thread_time()

    fingerprint(TASK, error)

    assert time.thread_time() - before < 1


def test_json_of_the_normalised_message_is_short() -> None:
    assert len(json.dumps(normalised("\x00" * 10**6))) <= 6 * 500 + 2
