from __future__ import annotations

import asyncio
import linecache
import threading
import time
from types import CodeType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_jobs.tracebacks import Described, describe, message_of, storable

LIMIT = 32_768
MARKER = "characters left out …"


def caught(raiser: Any) -> BaseException:
    try:
        raiser()
    except BaseException as error:  # noqa: BLE001 - the tests are about all of them
        return error
    raise AssertionError("nothing was raised")


def told(error: BaseException, limit: int = LIMIT) -> Described:
    """Describe the error and check what holds for each one."""
    described = describe(error, limit=limit)
    assert len(described.message) <= 500
    assert len(described.message.splitlines()) <= 1
    assert len(described.traceback) <= limit
    for text in (described.class_path, described.message, described.traceback):
        assert "\x00" not in text
        text.encode()
    return described


def raising(error: BaseException) -> BaseException:
    def fail() -> None:
        raise error

    return caught(fail)


def called(function: Any, *args: Any) -> str:
    """Tell what the call raises, without the frames of this module."""
    error = caught(lambda: function(*args))
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename == __file__:
        step = step.tb_next
    return told(error.with_traceback(step)).traceback


def module(name: str) -> Any:
    """Make a module whose frames say that they are of ``name``."""
    made: Any = ModuleType(name)
    source = "def run(task, *args):\n    task(*args)\ndef fail():\n    raise ValueError\n"
    exec(compile(source, f"/srv/{name}.py", "exec"), vars(made))
    return made


runner, tasks, shop = map(module, ("django_jobs.worker.runs", "django.tasks.base", "shop"))


class NeedsKeywords(Exception):
    def __init__(self, *, lock: object) -> None:
        self.lock = lock
        super().__init__("needs keywords")


class Silent(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class Numb(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307 - that is its fault


class Endless(Exception):
    def __str__(self) -> str:
        return str(self)


class Locked(Exception):
    """Raises for everything that is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)

    def __str__(self) -> str:
        raise SystemExit

    __cause__ = __context__ = __notes__ = __dict__ = property(__str__)
    __traceback__ = __suppress_context__ = property(__str__)

    def __reduce__(self) -> Any:
        raise SystemExit


class Chatty(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    __format__ = __getitem__ = __str__  # type: ignore[assignment]


class Says(Exception):
    def __str__(self) -> str:
        return Chatty("fine")


# What is told


def test_an_error_is_told_as_python_tells_it() -> None:
    described = told(caught(lambda: int("x")))

    assert "builtins.ValueError" == described.class_path
    assert described.message.startswith("ValueError: invalid literal for int()")
    lines = described.traceback.splitlines()
    assert "Traceback (most recent call last):" == lines[0]
    assert f'  File "{__file__}", line ' in described.traceback
    assert 'int("x")' in described.traceback
    assert described.message == lines[-1]


def test_an_error_without_message_or_traceback() -> None:
    assert Described("builtins.ValueError", "ValueError", "ValueError") == told(ValueError())


def test_classes_of_modules_are_named_with_them() -> None:
    described = told(Numb())

    assert "tests.test_tracebacks.Numb" == described.class_path
    assert described.traceback.startswith("tests.test_tracebacks.Numb: ")
    assert described.message.startswith("Numb: ")


def test_causes_are_told_first() -> None:
    outer = ValueError("outer")
    outer.__cause__ = KeyError("inner")
    text = told(outer).traceback

    assert [
        "KeyError: 'inner'",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "ValueError: outer",
    ] == text.splitlines()


def test_contexts_are_told_unless_suppressed() -> None:
    error = ValueError("outer")
    error.__context__ = KeyError("inner")
    told_with = told(error).traceback
    error.__suppress_context__ = True

    assert told_with.startswith("KeyError: 'inner'\n\nDuring handling of the above exception")
    assert "ValueError: outer" == told(error).traceback


def test_notes_are_told() -> None:
    error = ValueError("x")
    error.add_note("order \x00 42")
    error.__notes__.append(Silent())  # type: ignore[arg-type]

    assert r"order \x00 42" == told(error).traceback.splitlines()[-1]


def test_message_is_one_short_line() -> None:
    assert "ValueError: a b c" == told(ValueError("a\n b\r\n\tc\u2028")).message
    assert "ValueError: " + "x" * 487 + "…" == told(ValueError("x" * 5000)).message


def test_local_variables_are_never_told() -> None:
    def fail(password: str) -> None:
        kept = password  # noqa: F841 - a local that must stay one
        raise ValueError("no entry")

    described = told(caught(lambda: fail("S3" + "CRET")))

    assert "fail" in described.traceback
    assert "S3CRET" not in described.traceback


def test_frames_of_the_runner_are_left_out_at_the_head() -> None:
    text = called(runner.run, tasks.run, shop.run, shop.fail)

    assert "django" not in text
    assert 2 == text.count('File "/srv/shop.py"')


def test_frames_of_the_runner_are_told_below_the_first_other_one() -> None:
    text = called(runner.run, shop.run, tasks.fail)

    assert "/srv/shop.py" in text
    assert "/srv/django.tasks.base.py" in text
    assert "/srv/django_jobs.worker.runs.py" not in text


def test_frames_of_the_runner_are_told_when_there_is_nothing_else() -> None:
    text = called(runner.run, tasks.fail)

    assert "/srv/django_jobs.worker.runs.py" in text
    assert "/srv/django.tasks.base.py" in text


def test_a_package_with_a_like_name_is_not_the_runner() -> None:
    assert "/srv/django_jobs_shop.py" in called(runner.run, module("django_jobs_shop").fail)


# Whatever the exception does


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NeedsKeywords(lock=threading.Lock()), "NeedsKeywords: needs keywords"),
        (Silent("x"), "Silent: <no message: __str__ raised KeyboardInterrupt>"),
        (Numb("x"), "Numb: <no message: __str__ raised TypeError>"),
        (Endless("x"), "Endless: <no message: __str__ raised RecursionError>"),
        (Says("x"), "Says: fine"),
        (ValueError(Silent()), "ValueError: <no message: __str__ raised KeyboardInterrupt>"),
        (KeyError(Silent()), "KeyError: <no message: __str__ raised KeyboardInterrupt>"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (UnicodeDecodeError("utf-8", b"\xff\x00", 0, 1, "bad"), "UnicodeDecodeError: 'utf-8' "),
        (UnicodeEncodeError("utf-8", "\ud800\x00", 0, 1, "bad"), "UnicodeEncodeError: 'utf-8' "),
        (OSError(2, "gone", "a\x00b"), r"FileNotFoundError: [Errno 2] gone: 'a\x00b'"),
        (SyntaxError("bad", ("\x00", 1, 1, "\x00")), "SyntaxError: bad"),
        (ValueError("nul \x00 half \udc80 bell \x07"), r"ValueError: nul \x00 half \udc80 bell "),
        (ValueError(b"\xff\x00"), r"ValueError: b'\xff\x00'"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_every_error_can_be_told(error: BaseException, message: str) -> None:
    described = told(raising(error))

    assert described.message.startswith(message)
    assert "line " in described.traceback


def test_an_error_that_raises_for_everything_can_be_told() -> None:
    def fail() -> None:
        raise Locked

    described = told(caught(fail))

    assert "Locked: <no message: __str__ raised SystemExit>" == described.message
    assert "in fail" in described.traceback


def test_a_class_made_of_odd_parts_can_be_told() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise SystemExit

    odd: Any = Meta("Odd", (Exception,), {"__module__": 5, "__qualname__": "O\x00" * 500})

    assert told(raising(odd("x"))).message == "Odd: x"
    assert "unknown" != told(odd()).class_path


def test_a_cycle_of_causes_is_told_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    text = told(raising(first)).traceback

    assert 1 == text.count("ValueError: first") == text.count("ValueError: second")
    assert "told elsewhere in this text" in text


def test_a_group_that_causes_its_own_children_is_told_once() -> None:
    child = ValueError("child")
    group = ExceptionGroup("group", [child])
    child.__cause__ = group

    assert 2 >= told(raising(group)).traceback.count("group (1 sub-exception)")


def test_groups_are_told_with_their_first_children() -> None:
    text = told(raising(ExceptionGroup("many", [ValueError(n) for n in range(1000)]))).traceback

    assert "ExceptionGroup: many (1000 sub-exceptions)" in text
    assert "  +-- 1 of 1,000 --\n  | ValueError: 0" in text
    assert "… 985 more …" in text.splitlines()[-1]


def wide_and_deep_group() -> BaseException:
    group: Exception = ValueError("x" * 1_000_000)
    for _ in range(50):
        group = ExceptionGroup("", [group] * 1000)
    return group


def long_chain() -> BaseException:
    error = ValueError(0)
    for n in range(1, 10_000):
        later = ValueError(n)
        later.__cause__ = error
        error = later
    return error


def runaway() -> None:
    def ping() -> None:
        pong()

    def pong() -> None:
        ping()

    ping()


def noted() -> BaseException:
    error = ValueError("x")
    for _ in range(10_000):
        error.add_note("y" * 10_000)
    return error


@pytest.mark.parametrize(
    "make",
    [
        wide_and_deep_group,
        long_chain,
        noted,
        lambda: caught(runaway),
        lambda: ValueError("x" * 50_000_000),
        lambda: ValueError("\x00\ud800" * 10_000_000),
        lambda: ExceptionGroup("", [ValueError("x" * 50_000_000)] * 1000),
    ],
    ids=["groups", "chain", "notes", "recursion", "huge", "huge and odd", "huge group"],
)
def test_size_and_time_are_bounded(make: Any) -> None:
    error = raising(make())
    before = time.thread_time()

    described = told(error)

    assert time.thread_time() - before < 5
    assert len(described.traceback) > 500


def test_the_middle_of_a_long_traceback_is_left_out() -> None:
    text = told(caught(runaway)).traceback

    assert "more calls …" in text
    assert "in test_the_middle_of_a_long_traceback_is_left_out" not in text.splitlines()[-4:]
    assert text.splitlines()[-1].startswith("RecursionError: ")


def test_source_that_cannot_be_read_costs_the_source_only() -> None:
    class Loader:
        def get_source(self, name: str) -> str:
            raise SystemExit

    app = module("odd")
    app.__loader__ = Loader()
    linecache.clearcache()

    assert 'File "/srv/odd.py", line 4, in fail' in told(caught(app.fail)).traceback


def test_a_file_name_that_is_no_text_for_postgresql_is_escaped() -> None:
    def fail() -> None:
        raise ValueError

    code: CodeType = fail.__code__
    fail.__code__ = code.replace(co_filename="/srv/\udcff.py")

    assert r"/srv/\udcff.py" in told(caught(fail)).traceback


def test_message_of_returns_plain_text() -> None:
    assert str is type(message_of(Says()))


# Storable text


@given(st.text(st.characters() | st.sampled_from("\x00\ud800\x07")), st.integers(0, 200))
def test_storable_text_fits_and_is_utf8_without_control_characters(text: str, limit: int) -> None:
    stored = storable(text, limit=limit)

    assert len(stored) <= limit
    stored.encode()
    assert not set(map(chr, range(32))) - set("\t\n\r") & set(stored)
    assert stored == storable(stored, limit=limit)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_text_that_is_storable_stays_as_it_is(text: str) -> None:
    assert text == storable(text, limit=len(text))


def test_long_text_keeps_head_and_tail_and_says_how_much_is_missing() -> None:
    stored = storable("head" + "x" * 10_000 + "tail", limit=200)

    assert stored.startswith("headxxx")
    assert stored.endswith("xxxtail")
    kept = stored.count("x") + len("headtail")
    assert f"\n… {10_008 - kept:,} {MARKER}\n" in stored
    assert len(stored) > 150


def test_escapes_are_never_cut_in_two() -> None:
    stored = storable("\x00" * 10_000, limit=201)
    head, marker, tail = stored.split("\n")

    assert {""} == set(head.split(r"\x00")) == set(tail.split(r"\x00"))
    assert f"… {10_000 - (len(head) + len(tail)) // 4:,} {MARKER}" == marker


def test_text_that_only_its_escapes_make_too_long_is_cut() -> None:
    stored = storable("\x00" * 100, limit=150)

    assert len(stored) <= 150
    assert MARKER in stored
