"""How a path leads to its task, and what stands in when it does not."""

from __future__ import annotations

import sys

import pytest

from django_jobs.exceptions import UnknownTask
from django_jobs.tasks import placeholder, rebuild, resolve
from tests.sample_tasks import send

HERE = "tests.sample_tasks"


@pytest.mark.parametrize("name", ["add", "plain", "later", "send"])
def test_a_path_leads_to_its_task(name):
    assert getattr(sys.modules[HERE], name) is resolve(f"{HERE}.{name}")


def test_a_task_that_was_found_is_not_looked_for_again(monkeypatch):
    resolve(f"{HERE}.send")
    monkeypatch.setattr("django_jobs.tasks.lookup.import_module", None)
    assert send is resolve(f"{HERE}.send")


def test_ctrl_c_during_an_import_is_not_swallowed(monkeypatch):
    def interrupt(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("django_jobs.tasks.lookup.import_module", interrupt)
    with pytest.raises(KeyboardInterrupt):
        resolve(f"{HERE}.not_found_yet")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "not a dotted path"),
        ("add", "not a dotted path"),
        (".add", "not a dotted path"),
        ("tests..add", "not a dotted path"),
        ("tests.sample_tasks.add.", "not a dotted path"),
        ("tests.sample_tasks.add\n", "not a dotted path"),
        ("os.system('true')", "not a dotted path"),
        ("../../etc/passwd", "not a dotted path"),
        ("a." * 300 + "a", "not a dotted path"),
        ("nowhere.tasks.add", "there is no module nowhere.tasks"),
        ("tests.nowhere.add", "there is no module tests.nowhere"),
        (f"{HERE}.nothing", "its module has no nothing"),
        (f"{HERE}.undecorated", "a function is there, not a task"),
        (f"{HERE}.Shelf", "a type is there, not a task"),
        (f"{HERE}.elsewhere", "the task there calls itself tests.sample_tasks.undecorated"),
        (f"{HERE}.add.func", f"there is no module {HERE}.add"),
        (f"{HERE}.Shelf.dust", f"there is no module {HERE}.Shelf"),
        ("os.path.join", "a function is there, not a task"),
        ("os.environ.get", "there is no module os.environ"),
        ("builtins.exec", "a builtin_function_or_method is there, not a task"),
    ],
)
def test_what_is_no_task_is_unknown_with_the_reason(path, reason):
    with pytest.raises(UnknownTask) as refused:
        resolve(path)
    assert (path, True) == (refused.value.path, reason in refused.value.reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise RuntimeError('no database')", "failed: RuntimeError('no database')"),
        ("raise SystemExit(3)", "failed: SystemExit(3)"),
        (
            "import nowhere_at_all",
            "failed: ModuleNotFoundError(\"No module named 'nowhere_at_all'\")",
        ),
        ("def (", "failed: SyntaxError("),
        ("class E(Exception):\n def __repr__(self): raise E\nraise E", "failed: E"),
    ],
)
def test_a_module_that_cannot_be_imported_makes_its_tasks_unknown(
    tmp_path, monkeypatch, body, reason
):
    (tmp_path / "broken_tasks.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnknownTask) as refused:
        resolve("broken_tasks.add")
    assert reason in refused.value.reason


def test_a_module_that_can_be_imported_later_is_found_then(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "late_tasks.py").write_text("raise OSError('passing')")
    with pytest.raises(UnknownTask):
        resolve("late_tasks.hello")
    text = "from django_jobs import task\n@task\ndef hello_again(): pass\n"
    (tmp_path / "late_tasks.py").write_text(text)
    assert "late_tasks.hello_again" == resolve("late_tasks.hello_again").module_path


def test_nothing_is_called_on_the_way_to_a_task(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lazy_tasks.py").write_text(
        "called = []\n"
        "def __getattr__(name): called.append(name)\n"
        "class Meta(type):\n @property\n def add(cls): called.append('add')\n"
        "class Shelf(metaclass=Meta):\n pass\n"
        "from django.utils.functional import SimpleLazyObject\n"
        "lazy = SimpleLazyObject(lambda: called.append('lazy'))\n",
    )
    for name in ("add", "Shelf.add", "called.append", "lazy", "lazy.add"):
        with pytest.raises(UnknownTask):
            resolve(f"lazy_tasks.{name}")
    called = sys.modules["lazy_tasks"].called
    assert [] == [name for name in called if name != "__path__"]  # Python's own import asks


def test_a_rebuilt_task_differs_in_what_is_named_and_is_not_checked():
    made = rebuild(send, priority=1000, backend="nowhere", queue_name="a b")
    assert (1000, "nowhere", "a b", 5) == (
        made.priority,
        made.backend,
        made.queue_name,
        made.max_attempts,
    )
    assert send == rebuild(made, priority=7, backend="default", queue_name="mail")


def test_a_placeholder_says_which_task_is_gone():
    gone = placeholder("shop.tasks.old")
    assert ("shop.tasks.old", "old", "default") == (gone.module_path, gone.name, gone.backend)
    assert "shop.tasks.old" in repr(gone.func.__qualname__) or "old" == gone.func.__qualname__
    with pytest.raises(UnknownTask, match=r"shop\.tasks\.old"):
        gone.call(1, a=2)
