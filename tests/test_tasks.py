"""What ``@task`` makes of a function, and what it refuses to."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import django
import pytest

import django_jobs
from django_jobs import (
    CancelJob,
    Limit,
    Requires,
    RetryJob,
    SnoozeJob,
    constant,
    exponential,
    task,
)
from django_jobs.compat import InvalidTask, InvalidTaskBackend, Task, TaskResultStatus, django_task
from django_jobs.conf import InvalidOption
from django_jobs.placement import Needs
from django_jobs.states import FAILED, JobState
from django_jobs.tasks import STATUS, JobTask, row_of
from django_jobs.tasks.kept import Kept
from tests.aliases import put_backends, put_options
from tests.ids import shown
from tests.sample_tasks import (
    LAMBDA,
    Shelf,
    add,
    attempt_of,
    echo,
    plain,
    rule,
    send,
    undecorated,
)

GPU = Requires(host="web-1", labels={"gpu"}, resources={"memory_mb": 6000})
TWO = Limit("customer:7", size=2)

make: Any = JobTask  # with whatever arguments
declare: Any = task


@task
def shout(*words: str) -> str:
    return " ".join(words).upper()


django_declare: Any = django_task


# Declaration


def test_a_bare_decorator_leaves_everything_to_the_settings():
    assert isinstance(add, JobTask)
    assert (0, "default", "default", None, False) == (
        add.priority,
        add.queue_name,
        add.backend,
        add.run_after,
        add.takes_context,
    )
    assert (None, None, (Exception,), ()) == (
        add.max_attempts,
        add.backoff,
        add.retry_on,
        add.give_up_on,
    )
    assert (True, True, None, None) == (
        add.keep_dead,
        add.idempotent,
        add.metadata,
        add.requires,
    )
    assert (None, None) == (add.limit, add.expires_after)
    assert (Kept.KEPT, False, "thread", None) == (
        add.timeout,
        add.atomic,
        add.isolation,
        add.memory_mb,
    )


def test_a_function_may_be_given_with_options():
    assert 4 == task(undecorated, max_attempts=4).max_attempts


def test_djangos_own_decorator_makes_a_task_of_ours():
    assert isinstance(plain, JobTask)


def test_djangos_own_decorator_passes_options_on_where_it_can():
    if django.VERSION[:2] == (6, 0):
        with pytest.raises(TypeError):
            django_declare(max_attempts=4)
    else:
        assert 4 == django_declare(max_attempts=4)(undecorated).max_attempts


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("max_attempt", "max_attempts"),
        ("retries_on", "retry_on"),
        ("queue", "queue_name"),
        ("isolated", "isolation"),
        ("time_limit", "timeout"),
        ("soft_time_limit", "timeout"),
        ("retries", "max_attempts"),
        ("transaction", "atomic"),
        ("func", None),
        ("xyz", None),
    ],
)
def test_an_unknown_option_is_a_type_error_with_the_known_one(name, near):
    with pytest.raises(TypeError) as refused:
        declare(**{name: 1})
    hint = f" Did you mean {near!r}?" if near else ""
    assert f"task() has no option {name!r}.{hint}" == str(refused.value)


@pytest.mark.parametrize("name", ["run_after", "run_in"])
def test_a_time_cannot_be_declared(name):
    with pytest.raises(TypeError, match="differs from call to call; say using"):
        declare(**{name: timedelta(minutes=1)})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_attempts": 0}, "max_attempts=0 must be a whole number from 1 to 1,000"),
    ({"max_attempts": 1001}, "max_attempts=1001 must be"),
    ({"max_attempts": True}, "max_attempts=True must be"),
    ({"max_attempts": 3.0}, "max_attempts=3.0 must be"),
    ({"max_attempts": "3"}, "max_attempts='3' must be"),
    ({"backoff": 3}, "backoff=3 must be exponential(…), linear(…), constant(…) or a function"),
    ({"backoff": "linear"}, "backoff='linear' must be"),
    ({"retry_on": OSError}, "must be a tuple of exception classes, such as (OSError,)"),
    ({"retry_on": (OSError(),)}, "retry_on holds OSError(); it must hold exception classes only"),
    ({"retry_on": ("builtins.OSError",)}, "retry_on holds 'builtins.OSError'"),
    ({"retry_on": None}, "retry_on=None must be a tuple"),
    ({"give_up_on": (int,)}, "give_up_on holds <class 'int'>"),
    ({"keep_dead": 1}, "keep_dead=1 must be True or False"),
    ({"idempotent": None}, "idempotent=None must be True or False"),
    ({"metadata": ["a"]}, "metadata=['a'] must be a dictionary"),
    ({"metadata": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, "metadata.at: datetime is not JSON"),
    ({"metadata": {"long": "x" * 20_000}}, "but its limit is 16,384"),
    (
        {"requires": "gpu"},
        "requires='gpu' must be None or Requires(…), such as Requires(labels={'gpu'})",
    ),
    ({"requires": {"labels": {"gpu"}}}, "must be None or Requires(…)"),
    ({"requires": Requires}, "must be None or Requires(…)"),
    (
        {"limit": "customer:7"},
        "limit='customer:7' must be None or Limit(…), such as Limit('customer:{customer_id}', s",
    ),
    ({"limit": Limit}, "must be None or Limit(…)"),
    (
        {"limit": Limit("{order}:{ordre}", size=1)},
        "limit has the key '{order}:{ordre}', but the function takes no argument 'order'; name",
    ),
    (
        {"expires_after": 0},
        "expires_after=0 must be a timedelta or seconds, above 0 and at most 36,500 days",
    ),
    ({"expires_after": -1}, "expires_after=-1 must be"),
    ({"expires_after": True}, "expires_after=True must be"),
    ({"expires_after": "60"}, "expires_after='60' must be"),
    ({"expires_after": math.nan}, "expires_after=nan must be"),
    ({"expires_after": math.inf}, "expires_after=inf must be"),
    ({"expires_after": 10**400}, "expires_after=1000"),
    ({"expires_after": timedelta(0)}, "expires_after=datetime.timedelta(0) must be"),
    ({"expires_after": timedelta(days=36_500, microseconds=1)}, "must be a timedelta or seconds"),
    (
        {"timeout": 0},
        "timeout=0 must be a timedelta or seconds, at least 0.1 and at most 36,500 days, or None",
    ),
    ({"timeout": 0.09}, "timeout=0.09 must be"),
    ({"timeout": -1}, "timeout=-1 must be"),
    ({"timeout": True}, "timeout=True must be"),
    ({"timeout": "30"}, "timeout='30' must be"),
    ({"timeout": Decimal(30)}, "timeout=Decimal('30') must be"),
    ({"timeout": math.nan}, "timeout=nan must be"),
    ({"timeout": math.inf}, "timeout=inf must be"),
    ({"timeout": 10**400}, "timeout=1000"),
    ({"timeout": timedelta(milliseconds=99)}, "timeout=datetime.timedelta("),
    ({"timeout": timedelta(days=36_500, microseconds=1)}, "must be a timedelta or seconds"),
    ({"timeout": JobState.READY}, "timeout=JobState.READY must be"),
    ({"timeout": ...}, "timeout=Ellipsis must be"),
    ({"atomic": 1}, "atomic=1 must be True or False"),
    ({"atomic": None}, "atomic=None must be True or False"),
    ({"isolation": "fork"}, "isolation='fork' must be 'thread' or 'process'"),
    ({"isolation": None}, "isolation=None must be"),
    ({"isolation": ["process"]}, "isolation=['process'] must be"),
    (
        {"memory_mb": 500},
        "memory_mb needs isolation='process': threads share the memory of their worker",
    ),
    *(
        ({"memory_mb": most, "isolation": "process"}, f"memory_mb={most!r} must be a whole number")
        for most in (0, -1, True, 1.5, "500", 1024 * 1024 + 1)
    ),
    ({"priority": True}, "priority=True must be a whole number from -100 to 100"),
    ({"priority": 1.0}, "priority=1.0 must be"),
    ({"priority": "high"}, "priority='high' must be"),
    ({"priority": None}, "priority=None must be"),
    ({"priority": 101}, "priority=101 must be a whole number from -100 to 100"),
    ({"queue_name": "a b"}, "queue_name='a b' cannot be used: the name of a queue is 1 to 100"),
    ({"queue_name": ""}, "queue_name='' cannot be used"),
    ({"queue_name": ["a"]}, "queue_name=['a'] cannot be used"),
    ({"queue_name": "mial"}, "queue_name='mial' is not in TASKS['default']['QUEUES'] (default, "),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=shown)
def test_a_wrong_option_is_an_invalid_task_where_it_is_declared(options, words):
    with pytest.raises(InvalidTask) as refused:
        declare(**options)(undecorated)
    assert words in str(refused.value)


@pytest.mark.parametrize("options", [options for options, _ in WRONG], ids=shown)
def test_a_wrong_option_of_ours_is_told_with_the_task(options):
    with pytest.raises(InvalidTask, match=r"tests\.sample_tasks\.undecorated: "):
        declare(**options)(undecorated)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 1},
        {"max_attempts": 1000},
        {"backoff": exponential()},
        {"backoff": constant(1)},
        {"backoff": rule},
        {"retry_on": ()},
        {"retry_on": (KeyboardInterrupt,)},
        {"metadata": {}},
        {"requires": GPU},
        {"requires": Requires()},
        {"requires": None},
        {"limit": TWO},
        {"limit": Limit("{{a}}", size=0)},
        {"limit": None},
        {"expires_after": 0.5},
        {"expires_after": timedelta(days=36_500)},
        {"expires_after": None},
        {"timeout": 0.1},
        {"timeout": 30},
        {"timeout": timedelta(milliseconds=100)},
        {"timeout": timedelta(days=36_500)},
        {"timeout": None},
        {"atomic": True},
        {"isolation": "process"},
        {"priority": -100},
        {"priority": 100},
    ],
    ids=shown,
)
def test_right_options_are_kept(options):
    [(name, value)] = options.items()
    assert value == getattr(declare(**options)(undecorated), name)


def test_exception_classes_may_come_in_a_list():
    assert (OSError,) == declare(undecorated, retry_on=[OSError]).retry_on


def test_functions_that_no_worker_can_import_are_refused():
    def local() -> None:
        """Be local."""

    for wrong in (local, LAMBDA, Shelf, Shelf(), "x", None, sum):
        with pytest.raises(InvalidTask):
            make(func=wrong, **DEFAULTS)
    with pytest.raises(InvalidTask, match=r"func=None: .* must be defined at a module level"):
        make(func=None, **DEFAULTS)


@pytest.mark.parametrize("method", [Shelf.dust, Shelf.sort], ids=["method", "static"])
def test_a_method_is_refused_where_it_is_declared(method):
    with pytest.raises(
        InvalidTask, match=r"Shelf\.\w+: a worker calls .* move it out of the class"
    ):
        declare(method)


def test_an_alias_that_does_not_exist_is_told_with_the_task_and_the_one_that_does():
    with pytest.raises(InvalidTaskBackend) as refused:
        declare(undecorated, backend="defualt")
    assert (
        "tests.sample_tasks.undecorated: backend='defualt', but TASKS has no alias 'defualt'. "
        "Did you mean 'default'?" == str(refused.value)
    )


@pytest.mark.parametrize("wrong", ["x", None, 3, []], ids=shown)
def test_what_is_no_alias_is_told_as_one_that_is_missing(wrong):
    with pytest.raises(InvalidTaskBackend, match="TASKS has no alias"):
        declare(undecorated, backend=wrong)


QUEUES: list[tuple[dict[str, Any], str]] = [
    ({}, "(QUEUES is not set, so it is ['default']). Add it there, or use one of these."),
    ({"QUEUES": ["default", "mail"]}, "(default, mail). Did you mean 'mail'?"),
    ({"QUEUES": [f"q{n}" for n in range(99)]}, "q8, q9, …). Add it there, or use one of these."),
]


@pytest.mark.parametrize(("params", "words"), QUEUES)
def test_a_queue_that_is_not_in_queues_is_told_with_those_that_are(settings, params, words):
    put_options(settings, **params)
    with pytest.raises(InvalidTask) as refused:
        declare(undecorated, queue_name="mial")
    told = str(refused.value)
    where = "queue_name='mial' is not in TASKS['default']['QUEUES'] ("
    assert told.startswith(f"tests.sample_tasks.undecorated: {where}")
    assert told.endswith(words)


@pytest.mark.parametrize("queues", ["mail", None, {"mail": 1}, ["a b"], [[]]], ids=shown)
def test_wrong_queues_let_a_task_be_declared_and_refuse_its_jobs(settings, queues):
    """So that the check is reached, and tells, although the tasks are imported before."""
    put_options(settings, QUEUES=queues)
    made = declare(undecorated, queue_name="mail")
    with pytest.raises(InvalidOption, match=r"TASKS\['default'\]\['QUEUES'\] is "):
        made.enqueue()


@pytest.mark.parametrize("name", ["delay", "apply_async", "send", "defer"])
def test_the_words_of_other_queues_lead_to_ours(name):
    with pytest.raises(AttributeError, match=rf"add has no {name}\(\); say enqueue\(…\)"):
        getattr(add, name)(1)
    assert not hasattr(add, name)


def test_another_attribute_is_missing_as_anywhere():
    with pytest.raises(AttributeError, match="'JobTask' object has no attribute 'colour'"):
        add.colour  # type: ignore[attr-defined]  # noqa: B018 - it raises


DEFAULTS: dict[str, Any] = {
    "priority": 0,
    "backend": "default",
    "queue_name": "default",
    "run_after": None,
}


def test_a_path_longer_than_a_worker_looks_at_is_refused():
    def named() -> None:
        """Get a name."""

    named.__name__ = named.__qualname__ = "x" * 480
    assert named is make(func=named, **DEFAULTS).func
    named.__name__ = named.__qualname__ = "x" * 490
    with pytest.raises(InvalidTask, match="in at most 500 characters"):
        make(func=named, **DEFAULTS)


def test_metadata_is_a_copy_that_nobody_changes_later():
    given = {"deep": [1]}
    made = task(undecorated, metadata=given)
    given["deep"].append(2)
    assert {"deep": [1]} == made.metadata


def test_a_task_can_be_hashed_compared_and_copied():
    assert 1 == len({send, send.using(), copy.deepcopy(send)})
    assert send == send.using(priority=7) != send.using(priority=8)


def test_a_task_can_be_pickled_where_djangos_can():
    if django.VERSION >= (6, 1):
        assert send == pickle.loads(pickle.dumps(send))


def test_a_task_cannot_be_changed():
    with pytest.raises(AttributeError):
        send.max_attempts = 3  # type: ignore[misc]


# Other values of one task


def test_using_keeps_the_class_and_what_is_not_named():
    other = send.using(priority=3, queue_name="default", metadata={"a": 1})
    assert (JobTask, 3, "default", 5, {"a": 1}) == (
        type(other),
        other.priority,
        other.queue_name,
        other.max_attempts,
        other.metadata,
    )
    assert (7, "mail", {"team": "shop"}) == (send.priority, send.queue_name, send.metadata)


def test_the_last_time_that_is_said_counts():
    at, wait = datetime(2030, 1, 1, tzinfo=UTC), timedelta(minutes=5)
    times = [
        (made.run_after, made.run_in)
        for made in (
            add.using(run_after=at),
            add.using(run_after=wait),
            add.using(run_after=at).using(run_after=wait),
            add.using(run_after=wait).using(run_after=at),
            add.using(run_after=wait).using(priority=1),
        )
    ]
    assert [(at, None), (None, wait), (None, wait), (at, None), (None, wait)] == times


@pytest.mark.parametrize(
    "when",
    [
        "tomorrow",
        3600,
        datetime(2030, 1, 1),  # noqa: DTZ001 - naive on purpose
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
        timedelta.max,
        timedelta(days=36_501),
    ],
    ids=shown,
)
def test_a_time_that_cannot_be_kept_is_an_invalid_task(when):
    with pytest.raises(InvalidTask, match="run_after"):
        add.using(run_after=when)


def test_using_knows_its_options():
    with pytest.raises(TypeError, match="max_attempts"):
        add.using(max_attempts=3)  # type: ignore[arg-type]


# What a task requires of a host


def test_using_tells_the_queues_word_from_none_at_all():
    one = declare(undecorated, requires=GPU)
    assert GPU == one.using(priority=3).requires
    assert Requires() == one.using(requires=Requires()).requires
    assert one.using(requires=None).requires is None
    assert GPU == add.using(requires=GPU).using().requires
    assert add.requires is None
    with pytest.raises(InvalidTask, match=r"add: requires='gpu' must be None or Requires"):
        add.using(requires="gpu")  # type: ignore[arg-type]


def test_what_a_task_requires_is_part_of_its_value():
    one, other = (add.using(requires=GPU), add.using(requires=Requires(host="web-1")))
    assert one != other != add
    assert 1 == len({one, add.using(requires=GPU), copy.deepcopy(one)})
    if django.VERSION >= (6, 1):
        assert one == pickle.loads(pickle.dumps(one))


BY_QUEUE = {"mail": {"requires": {"labels": ["mailer"]}}, "photos": {"slots": 2}}
MAILER = Needs(requires=Requires(labels={"mailer"}))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (add, None),
        (add.using(queue_name="photos"), None),
        (add.using(queue_name="mail"), MAILER),
        (add.using(queue_name="mail", requires=GPU), Needs(requires=GPU)),
        (add.using(queue_name="mail", requires=GPU).using(requires=None), MAILER),
        (add.using(queue_name="mail", requires=Requires()), None),
        (plain, None),
        (plain.using(queue_name="mail"), MAILER),
    ],
    ids=range(8),
)
def test_the_row_takes_the_tasks_word_before_the_queues(settings, made, expected):
    options = put_options(settings, {"queues": BY_QUEUE}, QUEUES=["default", "mail", "photos"])
    assert expected == row_of(made, options)["needs"]


def test_a_task_of_another_class_has_what_its_queue_requires(settings):
    options = put_options(settings, {"queues": BY_QUEUE}, QUEUES=[])
    other: Any = Task(**DEFAULTS | {"func": undecorated, "queue_name": "mail"})
    assert MAILER == row_of(other, options)["needs"]


def test_a_wrong_word_of_the_queue_refuses_its_jobs(settings):
    put_options(settings, {"queues": {"mail": {"requires": {"label": "x"}}}}, QUEUES=["mail"])
    with pytest.raises(InvalidOption, match=r"Take out .label.\. Did you mean .labels.\?"):
        declare(undecorated, queue_name="mail").enqueue()


@pytest.mark.parametrize("backend", ["dummy", "immediate"])
def test_djangos_backends_pass_over_what_is_required(settings, backend):
    put_backends(settings)
    made = add.using(backend=backend, requires=GPU)
    result = made.enqueue(1, b=2)
    assert GPU == result.task.requires  # type: ignore[attr-defined]
    if backend == "immediate":
        assert 3 == result.return_value


# What a task's limit and its expiry may be


@pytest.mark.parametrize(
    ("made", "key"),
    [
        (add, "{a}:{b}"),
        (send, "{order}:{customer}"),
        (attempt_of, "{value}"),
        (echo, "{whatever}"),
        (add, "all"),
        (add, str),
    ],
    ids=range(6),
)
def test_a_key_may_ask_for_what_the_function_takes(made, key):
    assert key == made.using(limit=Limit(key, size=1)).limit.key


@pytest.mark.parametrize(
    ("made", "name"),
    [(add, "c"), (send, "cusomer"), (attempt_of, "context"), (shout, "words")],
    ids=range(4),
)
def test_a_key_that_asks_for_more_than_the_function_takes_is_an_invalid_task(made, name):
    with pytest.raises(InvalidTask, match=rf"{made.name}: limit .* takes no argument '{name}'"):
        made.using(limit=Limit(f"a:{{{name}}}", size=1))


def test_using_tells_another_limit_from_none_at_all():
    one = declare(undecorated, limit=TWO, expires_after=60)
    assert (TWO, 60) == (one.using(priority=3).limit, one.using(priority=3).expires_after)
    assert (None, 60) == (one.using(limit=None).limit, one.using(limit=None).expires_after)
    assert (TWO, None) == (
        one.using(expires_after=None).limit,
        one.using(expires_after=None).expires_after,
    )
    three = Limit("customer:7", size=3)
    assert three == one.using(limit=three).using().limit
    with pytest.raises(InvalidTask, match=r"add: limit=2 must be None or Limit"):
        add.using(limit=2)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match=r"add: expires_after='1' must be a timedelta"):
        add.using(expires_after="1")  # type: ignore[arg-type]


def test_a_limit_and_an_expiry_are_part_of_a_tasks_value():
    one = add.using(limit=TWO, expires_after=60)
    assert one != add.using(limit=TWO) != add != add.using(expires_after=60)
    assert 1 == len({one, add.using(limit=TWO, expires_after=60), copy.deepcopy(one)})
    if django.VERSION >= (6, 1):
        assert one == pickle.loads(pickle.dumps(one))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (add.using(expires_after=timedelta(minutes=1)), 60.0),
        (add.using(expires_after=60), 60.0),
        (add, None),
        (plain, None),
    ],
    ids=range(4),
)
def test_the_row_keeps_an_expiry_as_seconds(settings, made, expected):
    found = row_of(made, put_options(settings, {}))["expires_in"]
    assert (type(expected), expected) == (type(found), found)


def test_a_job_that_could_only_expire_is_an_invalid_task():
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    assert minute == add.using(run_after=minute, expires_after=hour).run_in
    for late in (minute, hour):
        with pytest.raises(InvalidTask, match=r"run_after=.* is no earlier than expires_after="):
            add.using(run_after=hour, expires_after=late)


@pytest.mark.parametrize("backend", ["dummy", "immediate"])
def test_djangos_backends_pass_over_a_limit_and_an_expiry(settings, backend):
    put_backends(settings)
    made = add.using(backend=backend, limit=Limit("{a}", size=0), expires_after=1e-6)
    result = made.enqueue("", b="x")
    assert 0 == result.task.limit.size  # type: ignore[attr-defined]
    if backend == "immediate":
        assert "x" == result.return_value


# What a task may raise


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (60, timedelta(minutes=1)),
        (0.5, timedelta(seconds=0.5)),
        (-5, timedelta(0)),
        (1e300, timedelta(days=36_500)),
        (timedelta(hours=1), timedelta(hours=1)),
        (timedelta.max, timedelta(days=36_500)),
        (datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)),
    ],
    ids=shown,
)
def test_a_snooze_takes_seconds_a_timedelta_or_a_datetime(given, kept):
    assert kept == SnoozeJob(given).until


NO_TIMES = ["60", None, True, math.nan, math.inf, [60], date(2030, 1, 1)]


@pytest.mark.parametrize("wrong", NO_TIMES, ids=shown)
def test_what_is_no_time_is_told_where_it_is_raised(wrong: Any):
    with pytest.raises(TypeError, match=r"until=.* must be a datetime, a timedelta or seconds"):
        SnoozeJob(wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match=r"after=.* must be seconds, a timedelta or None"):
            RetryJob(wrong)


@pytest.mark.parametrize("wrong", [None, 3, ValueError("no")], ids=shown)
def test_a_reason_is_text(wrong: Any):
    with pytest.raises(TypeError, match=r"reason=.* must be text; pass str"):
        CancelJob(wrong)


# Small things


def test_every_state_has_a_status():
    assert set(JobState) == set(STATUS)
    assert {TaskResultStatus.FAILED} == {STATUS[state] for state in FAILED}
    running = [state for state in JobState if STATUS[state] == TaskResultStatus.RUNNING]
    assert [JobState.RUNNING] == running


def test_the_public_names_are_these():
    expected = ["CancelJob", "JobContext", "Limit", "Requires", "RetryJob", "SnoozeJob"]
    expected += ["chain", "constant", "exponential", "group", "linear", "task"]
    assert expected == sorted(django_jobs.__all__)
    assert all(hasattr(django_jobs, name) for name in expected)


def test_an_unknown_word_of_using_is_a_type_error_with_the_known_one():
    with pytest.raises(TypeError, match=r"no option 'require'\. Did you mean 'requires'\?"):
        add.using(require=None)  # type: ignore[arg-type]
