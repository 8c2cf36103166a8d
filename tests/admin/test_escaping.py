"""What attackers write is text on every page: it makes no element and no attribute."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.test import Client

from django_jobs.admin.filters import made_by
from django_jobs.models import (
    Activity,
    Dependency,
    Event,
    Job,
    Lease,
    Limit,
    Placement,
    Queue,
    Schedule,
    Skip,
    Worker,
)
from django_jobs.operations.act import Actor
from django_jobs.operations.requeue import requeue
from tests.admin.pages import (
    ACTIVITY,
    DEAD,
    JOBS,
    LIMITS,
    LISTS,
    QUEUES,
    SCHEDULES,
    SKIPS,
    WORKERS,
    choose,
    page_of,
    page_of_queue,
    shown,
    verb_on,
)
from tests.operations.ended import ended

pytestmark = pytest.mark.django_db

HARMLESS = "harm less"  # no name of a queue, a host or a label, as none of the hostile
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{7*7}}{% debug %}",
    "javascript:alert(1)",
    "</pre></details></textarea><!-- <b>",
    "&lt;i&gt;\u202e\u2028",
]


class Shape(HTMLParser):
    """What a page is made of, text apart, and where its links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: Counter[tuple[str, ...]] = Counter()
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts[tag, *(name for name, _value in attrs)] += 1
        links = ("href", "src", "action", "formaction")
        self.links += [value or "" for name, value in attrs if name in links]

    def handle_endtag(self, tag: str) -> None:
        self.parts[f"/{tag}",] += 1

    def handle_comment(self, data: str) -> None:
        self.parts["!--",] += 1

    @property
    def scripts(self) -> list[str]:
        return [link for link in self.links if link.strip().lower().startswith("javascript:")]


def everywhere(text: str) -> tuple[int, Worker]:
    """Put ``text`` wherever somebody else's text can stand; return a dead job and a worker."""
    for model in (Job, Event, Lease, Queue, Worker, Activity, Placement, Skip, Limit, Schedule):
        model.objects.all().delete()
    amounts: Any = {text: 1}
    host = Worker.objects.create(
        id=uuid4(), backend=text, name=text, pid=1, version=text, queues=[text], capacity=6,
        aliases=[text], labels=[text], resources=amounts, slots=amounts, default_slots=8,
    )  # fmt: skip
    Worker.objects.create(
        id=uuid4(), backend="default", name=f"{text} 2", pid=2, version="1", queues=[text],
        capacity=1, default_slots=8,
    )  # fmt: skip
    Queue.objects.create(
        name=text, backend=text, paused=True, paused_at=Now(), paused_by=text, paused_reason=text
    )
    asked = Placement.objects.create(
        digest=text, host=text, labels=[text], resources=amounts, task=text
    )
    for name in (text, "elsewhere"):
        Skip.objects.create(host=name, placement=asked.pk, reason=text, detail=text)
    story: Any = {"reason": text, "error": text, "class": text, "traceback": text}
    [pk] = ended(
        1, task=text, queue=text, backend=text, args=[text, {text: text}], kwargs={text: text},
        metadata={text: text}, result=text, error=text, fingerprint=text, worker_ids=[text],
        schedule=text, scheduled_for=Now(),
    )  # fmt: skip
    entry = {
        "task": text, "schedule": text, "timezone": text, "queue": text, "catch_up": text,
        "overlap": text, "digest": text, "last_job": pk, "missed_at": Now(), "missed_why": text,
        "next_at": Now(),
    }  # fmt: skip
    Schedule.objects.create(
        backend=text, name=text, disabled_at=Now(), disabled_by=text, disabled_reason=text, **entry
    )
    Schedule.objects.create(backend=text, name=f"{text} 2", **entry)
    Schedule.objects.create(backend="default", name=text, gone_at=Now(), **entry)
    Event.objects.update(kind="dead", worker=host.pk, data=story, actor=text)
    story = {"from": text, **story}
    Event.objects.create(job_id=pk, kind=text, attempt=1, life=1, data=story)
    Job.objects.create(task=text, queue=text, backend=text, placement=asked.pk)
    able = "".join(each for each in text if each.isprintable() and each != " ")
    for needs in ({"task": text}, {"host": able}):
        where = Placement.objects.create(digest=text, **needs)
        Job.objects.create(task=text, queue="q", placement=where.pk)
    Job.objects.create(
        task=text, queue=text, backend=text, state="scheduled", run_after="2999-01-01T00:00Z",
        error=text, attempt=1,
    )  # fmt: skip
    running = Job.objects.create(
        task=text, queue=text, backend=text, state="running", attempt=1, limit_key=text
    )
    Lease.objects.create(job_id=running.pk, worker=host.pk, expires_at=Now(), limit_key=text)
    Limit.objects.create(key=text, size=1, in_use=1)
    blocked = Job.objects.create(
        task=text, queue=text, backend=text, state="blocked", limit_key=text, unique_key=text
    )
    Dependency.objects.create(parent=running.pk, child=blocked.pk)
    Activity.objects.create(
        actor_id=text, actor_name=text, via=text, verb=text, scope=text, count=1, reason=text
    )
    return pk, host


def pages(client: Client, text: str) -> dict[str, str]:
    """Every page with ``text`` on it, by what kind of page it is."""
    pk, host = everywhere(text)
    act = Activity.objects.get().pk
    first = Schedule.objects.earliest("pk")
    live = list(Job.objects.live().order_by("pk").values_list("pk", flat=True))
    found = {address: shown(client, address) for address in (*LISTS, "/admin/")}
    found["dead job"] = shown(client, page_of(pk))
    for number, one in enumerate(live):
        found[f"live job {number}"] = shown(client, page_of(one))
    found["queue"] = shown(client, page_of_queue(text, text))
    found["skip"] = shown(client, f"{SKIPS}{Skip.objects.order_by('pk')[0].pk}/change/")
    for row in Schedule.objects.order_by("pk"):
        found[f"schedule {row.pk - first.pk}"] = shown(client, f"{SCHEDULES}{row.pk}/change/")
    found["schedule chosen"] = shown(client, f"{JOBS}?schedule={quote(made_by(text, text))}")
    found["queue chosen"] = shown(client, f"{JOBS}?queue={quote(text)}")
    found["task chosen"] = shown(client, f"{DEAD}?task={quote(text)}")
    found["search"] = shown(client, f"{JOBS}?q={quote(text)}")
    found["worker"] = shown(client, f"{WORKERS}{host.pk}/change/")
    found["act"] = shown(client, f"{ACTIVITY}{act}/change/")
    found["history"] = shown(client, f"{JOBS}{pk}/history/")
    for name, response in answers(client, pk, text).items():
        assert 200 == response.status_code, name
        found[name] = response.content.decode()
    return found


def answers(client: Client, pk: int, text: str) -> dict[str, Any]:
    """What is answered to a form, with ``text`` in what was posted where that can be."""
    entry = Schedule.objects.earliest("pk").pk
    return {
        "confirmation": choose(client, "purge_selected", pk, at=DEAD),
        "confirmation of one": client.post(verb_on("purge", pk)),
        "disabling": client.post(f"{SCHEDULES}{entry}/disable/"),
        "disabling refused": client.post(f"{SCHEDULES}{entry}/disable/", {"asked": "1"}),
        "run refused": client.post(f"{SCHEDULES}{entry}/run/", follow=True),
        "size": client.post(f"{LIMITS}size/", {"key": text}),
        "pause": client.post(f"{QUEUES}pause/", {"backend": text, "queue": text}),
        "pause refused": client.post(
            f"{QUEUES}pause/",
            {"backend": text, "queue": text, "asked": "1", "reason": text, "until": text},
        ),
        "resume": client.post(
            f"{QUEUES}resume/", {"backend": text, "queue": text, "job": text}, follow=True
        ),
        "no such scope": client.post(
            f"{JOBS}purge/", {"scope": text, "reason": text}, follow=True
        ),
        "no such job": client.get(f"{JOBS}{quote(text, safe='')}/change/", follow=True),
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(admin_client: Client, text: str) -> None:
    is_nameable = ":" not in text and text.isprintable()  # by a flag, else no command is shown
    like = HARMLESS.replace(" ", " " if is_nameable else ":")
    expected = {name: Shape(page) for name, page in pages(admin_client, like).items()}
    for name, page in pages(admin_client, text).items():
        got = Shape(page)
        assert expected[name].parts == got.parts, name
        assert [] == got.scripts, name


def test_the_text_is_there_to_be_read(admin_client: Client) -> None:
    found = pages(admin_client, HOSTILE[0])
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert found.pop("/admin/")
    for name in ("history", "search", "no such scope"):
        found.pop(name)
    for name, page in found.items():
        assert escaped in page, name


def test_templates_are_not_run_on_what_is_stored(admin_client: Client) -> None:
    pk, _host = everywhere("{{7*7}}")
    page = shown(admin_client, page_of(pk))
    assert "{{7*7}}" in page
    assert ">49<" not in page


def test_names_and_reasons_of_operators_are_only_text(admin_client: Client) -> None:
    shapes = []
    for name, reason in ((HARMLESS, HARMLESS), (HOSTILE[0], HOSTILE[1])):
        [pk] = ended()
        actor = Actor(name=name, via="cli")
        requeue([pk], actor=actor, reason=reason, database="default")
        shapes.append(Shape(shown(admin_client, page_of(pk))).parts)
    assert shapes[0] == shapes[1]


def test_this_test_finds_what_it_looks_for() -> None:
    for text in (HOSTILE[0], HOSTILE[1], HOSTILE[5]):
        assert Shape("<p></p>").parts != Shape(f"<p>{text}</p>").parts
    assert Shape("<p title=''>").parts != Shape(f"<p title='{HOSTILE[2]}'>").parts
    assert ["JavaScript:x"] == Shape('<a href="JavaScript:x">').scripts
