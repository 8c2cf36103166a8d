"""The demonstration: what it counts, how it judges that, and what runs beside it."""

from __future__ import annotations

import io
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db.models.functions import Now

from django_jobs.models import Job, Lease
from django_jobs.operations.act import Actor
from django_jobs.operations.requeue import requeue
from django_jobs.testing import run_jobs
from testproject.shop import processes
from testproject.shop.figures import (
    DeadPrice,
    Figures,
    Line,
    Standing,
    dead_price,
    measure,
    standing,
)
from testproject.shop.intake import Batch
from testproject.shop.management.commands.demo import Command
from testproject.shop.models import Product
from testproject.shop.paths import PROJECT, Folder
from testproject.shop.report import (
    headway,
    invitation,
    meant_to_die,
    problems,
    report,
    verdict,
)
from testproject.shop.tasks import change_price
from tests.processes import JobWorkers, wait_for


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Let the shop keep its files in a folder of this test; nothing is on its lists."""
    monkeypatch.setenv("SHOP_FOLDER", str(tmp_path))
    (tmp_path / "products.csv").write_text("sku,name,price\n")
    (tmp_path / "prices.csv").write_text("line,sku,price,supplier\n")
    return Folder(tmp_path)


# The figures


def line(queue: str, succeeded: int, dead: int = 0, **values: Any) -> Line:
    """Return the figures of one queue."""
    times = dict.fromkeys(("waited", "waited_most", "ran", "ran_most"), timedelta(seconds=1.25))
    figures = {"enqueued": succeeded + dead, "succeeded": succeeded, "dead": dead, "retried": 0}
    return Line(queue=queue, **{**figures, **times, **values})


RIGHT = Figures(
    lines=[line("imports", 2_997, 3), line("photos", 38, 2), line("mail", 300)],
    total=line("all", 3_335, 5),
    asked={"imports": 3_000, "photos": 40, "mail": 300},
    prices={"P-1": Decimal("2.50")},
    last_prices={"P-1": Decimal("2.50")},
    mails=300,
    thumbnails=38,
)


def test_right_figures_have_no_problems():
    assert [] == list(problems(RIGHT))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"total": line("all", 3_336, 4)}, "4 dead, and 5 must be."),
        (
            {"lines": [line("imports", 2_996, 3), *RIGHT.lines[1:]]},
            "imports: 2,996 succeeded and 3 dead make 2,999, but 3,000 were enqueued.",
        ),
        (
            {"lines": RIGHT.lines[:2]},
            "mail: 0 succeeded and 0 dead make 0, but 300 were enqueued.",
        ),
        (
            {"prices": {"P-1": Decimal("2.49")}},
            "P-1 costs 2.49, but the list ends with 2.50; wrong prices in all: 1.",
        ),
        (
            {"prices": {}},
            "P-1 costs None, but the list ends with 2.50; wrong prices in all: 1.",
        ),
        ({"mails": 299}, "299 mail files, and 300 must be."),
        ({"thumbnails": 40}, "40 thumbnails, but 38 photos were resized."),
    ],
)
def test_a_wrong_figure_is_told_in_a_sentence(changes, sentence):
    assert [sentence] == list(problems(replace(RIGHT, **changes)))


def test_a_wrong_figure_ends_the_demonstration_with_an_error():
    command = Command(stdout=io.StringIO(), stderr=io.StringIO())

    command.judge(RIGHT)
    with pytest.raises(CommandError, match="299 mail files") as raised:
        command.judge(replace(RIGHT, mails=299))

    assert 1 == raised.value.returncode


def test_the_table_fits_eighty_columns():
    slow = dict.fromkeys(("waited", "waited_most", "ran", "ran_most"), timedelta(seconds=1234.5))

    table = report(replace(RIGHT, total=line("all", 300_000, 5, retried=30_000, **slow)))
    prices = dict.fromkeys(map(str, range(200)), Decimal(1))
    said = [
        *verdict(replace(RIGHT, prices=prices)).splitlines(),
        meant_to_die(),
        invitation(DeadPrice(1_000_000, "X-1909")),
    ]

    assert 80 >= max(map(len, [*table, *said]))


def test_times_read_in_milliseconds_or_seconds():
    times: dict[str, Any] = {
        "waited": timedelta(microseconds=1_234),
        "waited_most": timedelta(seconds=0.25),
        "ran": None,
    }

    row = report(replace(RIGHT, lines=[], total=line("all", 1, **times)))[2]

    assert ["all", "1", "1", "0", "0", "1.2", "ms", "250", "ms", "-", "1.25", "s"] == row.split()


def job(queue: str, state: str, attempt: int = 1, **values: Any) -> int:
    """Put a job's row into the table, as a worker leaves it."""
    times = dict.fromkeys(("enqueued_at", "started_at", "last_attempted_at"), Now())
    if state in {"succeeded", "dead"}:
        times["finished_at"] = Now()
    return Job.objects.create(
        task="testproject.shop.tasks.x",
        queue=queue,
        state=state,
        attempt=attempt,
        **{**times, **values},
    ).pk


@pytest.mark.django_db
def test_the_figures_are_counted_in_the_table_over_this_batch_alone(place):
    mine = [job("mail", "succeeded"), job("mail", "succeeded", 2), job("mail", "dead", 3)]
    job("mail", "dead", 3)

    figures = measure(Batch({"mail": tuple(mine)}), place)

    [mail] = figures.lines
    assert (3, 2, 2, 1) == (mail.enqueued, mail.succeeded, mail.retried, mail.dead)
    assert replace(mail, queue="all") == figures.total
    assert {"mail": 3} == figures.asked


@pytest.mark.django_db
def test_waited_ends_at_the_first_start_and_ran_begins_at_the_last(place):
    ids = tuple(
        job(
            "mail",
            "succeeded",
            enqueued_at=Now() - timedelta(seconds=60),
            started_at=Now() - timedelta(seconds=60 - waited),
            last_attempted_at=Now() - timedelta(seconds=ran),
            finished_at=Now(),
        )
        for waited, ran in ((1, 2), (3, 4), (20, 30))
    )

    total = measure(Batch({"mail": ids}), place).total

    assert [3, 20, 4, 30] == [
        round(time.total_seconds())
        for time in (total.waited, total.waited_most, total.ran, total.ran_most)
        if time is not None
    ]


@pytest.mark.django_db
def test_the_headway_tells_what_has_ended_runs_waits_for_a_retry_and_died():
    ids = (
        job("mail", "succeeded"),
        job("mail", "dead", 3),
        job("mail", "running"),
        job("mail", "scheduled", 1, run_after=Now()),
        job("mail", "ready", 0),
    )

    standings = standing(Batch({"mail": ids}))

    assert [Standing(queue="mail", ended=2, running=1, to_retry=1, dead=1)] == standings
    assert "mail 2/5  1 running  1 to retry  1 dead" == headway(standings, {"mail": 5})


def test_the_longest_headway_fits_a_line():
    standings = [
        Standing(queue=queue, ended=number, running=2, to_retry=7, dead=1)
        for queue, number in RIGHT.asked.items()
    ]

    assert 80 > len(headway(standings, RIGHT.asked))


@pytest.mark.django_db
def test_a_job_that_is_meant_to_die_succeeds_as_the_demonstration_says(place):
    call = change_price.s(7, "X-0007", "9.90", supplier="Halden")
    batch = Batch({"imports": tuple(map(int, change_price.enqueue_many([call])))})
    assert None is dead_price(batch)
    run_jobs()
    price = dead_price(batch)

    assert DeadPrice(batch.all_ids[0], "X-0007") == price
    Product.objects.create(sku=price.sku, name="Blue lamp", price=Decimal(1))
    requeue([price.job], actor=Actor(name="Ana", via="cli"), database="default")
    assert [price.job] == run_jobs().succeeded
    assert None is dead_price(batch)


# What runs beside it


@pytest.mark.parametrize(
    ("prefix", "command"),
    [(PROJECT / ".venv", "make db-stop"), ("/usr", "python -m testproject.postgres stop")],
)
def test_what_ends_the_server_of_the_checkout_is_told(monkeypatch, prefix, command):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr(sys, "prefix", str(prefix))

    assert f"`{command}` ends it." in processes.what_stays()


def test_a_server_that_was_named_is_not_told_to_be_stopped(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/x")

    assert "stop" not in processes.what_stays()


def test_a_port_in_use_is_refused_in_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            CommandError, match=rf"^Port {port} of 127\.0\.0\.1 cannot be used: .*\.$"
        ):
            processes.bind(port)


def test_a_port_that_cannot_be_is_refused_in_one_sentence():
    with pytest.raises(CommandError, match=r"^Port 99999 of .* must be 0-65535\.$"):
        processes.bind(99_999)


def test_without_a_port_the_admin_is_served_on_a_free_one(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(processes, "USUAL_PORT", taken.getsockname()[1])
        with processes.admin_server(None) as address:
            assert address.startswith("http://127.0.0.1:")
            assert address != f"http://127.0.0.1:{processes.USUAL_PORT}"


def test_a_worker_that_died_is_told_with_its_status_and_its_log(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    process.wait()

    with pytest.raises(CommandError, match=r"ended early, with status 3; see .*worker\.log\.$"):
        processes.demand_alive(process, tmp_path / "worker.log")


def test_a_worker_that_does_not_hear_sigterm_is_killed(monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", (0.05, 0.05))
    deaf = "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN); print(flush=True); s.pause()"

    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()

        assert -signal.SIGKILL == processes.drain(process)


def test_a_second_demonstration_in_the_same_folder_is_refused(tmp_path):
    with (
        processes.only_one(tmp_path / "lock"),
        pytest.raises(CommandError, match="Another demonstration is running"),
        processes.only_one(tmp_path / "lock"),
    ):
        pass


# All of it


@pytest.mark.slow
@pytest.mark.subprocess
def test_an_interrupted_demonstration_stops_its_worker_and_the_next_one_ends_well(
    jobworker: JobWorkers, place
):
    first = jobworker.command("demo", SHOP_FOLDER=str(place.root))
    wait_for(lambda: Job.objects.final().count() > 100, what=first.log())
    first.term()

    assert 130 == first.wait(60), first.log()
    assert "Interrupted; no worker was left running." in first.log()
    assert 0 == Lease.objects.count() == Job.objects.filter(state="running").count()

    second = jobworker.command("demo", SHOP_FOLDER=str(place.root), DEMO_EXIT="1")

    assert 0 == second.wait(60), second.log()
    assert "$ python manage.py jobworker --max-in-flight 6" in second.log()
    assert "Right: 3,335 succeeded + 5 dead = 3,340 enqueued;" in second.log()
    assert meant_to_die() in second.log()
    assert second.log().endswith(f"{processes.what_stays()}\n")
    assert 0 == Lease.objects.count()
