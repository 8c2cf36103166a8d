"""``manage.py demo``: the shop's work, done by a real worker before your eyes."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.core.management.color import no_style
from django.db import OperationalError
from django.urls import reverse

from testproject.shop import intake, processes, sample
from testproject.shop.figures import dead_price, measure, standing
from testproject.shop.paths import folder, shown
from testproject.shop.progress import Progress
from testproject.shop.report import headway, invitation, meant_to_die, problems, report, verdict

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from django.core.management.base import CommandParser

    from testproject.shop.figures import Figures, Standing
    from testproject.shop.paths import Folder

LOGIN = "demo"
PASSWORD = "demo"  # noqa: S105 - served to this machine alone, and printed
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_OF_SILENCE = 60


class Command(BaseCommand):
    """Sets the shop up, lets a worker do its work, judges that, and serves the admin."""

    help = "Show django_jobs at work: a shop's input, a real worker, the figures, the admin."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare ``--port`` and ``--seed``."""
        parser.add_argument(
            "--port",
            type=int,
            help=f"Serve the admin here (default: {processes.USUAL_PORT}, else any free one).",
        )
        parser.add_argument(
            "--seed",
            type=int,
            default=sample.SEED,
            help="Write the sample data of this seed (default: %(default)s).",
        )

    def handle(self, *_args: Any, port: int | None, seed: int, **_options: Any) -> None:
        """Run it; Ctrl-C, SIGTERM and a closed terminal end it tidily at any moment."""
        if os.environ.get("NO_COLOR"):
            self.style = no_style()
            self.stderr.style_func = None
        try:
            with processes.interrupted_by(signal.SIGTERM, signal.SIGHUP):
                self.run(port, seed)
        except KeyboardInterrupt:
            self.say(f"\nInterrupted; no worker was left running.\n{processes.what_stays()}")
            sys.exit(128 + signal.SIGINT)
        except OperationalError as error:
            sentence = " ".join(str(error).split())
            raise CommandError(f"The database cannot be reached: {sentence}") from None
        except PermissionError as error:
            raise CommandError(f"{error.filename} cannot be written: {error.strerror}.") from None

    def run(self, port: int | None, seed: int) -> None:
        """Go through the demonstration; what it starts ends with it."""
        place = folder()
        place.root.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(processes.only_one(place.root / "demo.lock"))
            address = stack.enter_context(processes.admin_server(port))
            self.set_up()
            self.say_where(address)
            batch = self.fill(place, seed)
            self.show_command(*processes.WORKER)
            worker = stack.enter_context(processes.worker(place.worker_log))
            self.watch(batch, worker, place.worker_log)
            self.judge(measure(batch, place))
            if processes.asked_to_exit():
                self.say(
                    "Without DEMO_EXIT=1 the worker and the admin go on, for you to look around."
                )
            else:
                self.invite(batch, address)
                wait_for_interrupt(worker, place.worker_log)
                self.say("\nStopping the worker.")
        self.say(processes.what_stays())

    def invite(self, batch: intake.Batch, address: str) -> None:
        """Tell what can be done now, in the admin."""
        self.say_where(address)
        if price := dead_price(batch):
            self.say(invitation(price))
        self.say("The worker runs on. Ctrl-C ends it and the admin.")

    def set_up(self) -> None:
        """Make the tables and a superuser."""
        self.show_command("manage.py", "migrate")
        call_command("migrate", interactive=False, verbosity=0)
        user, _ = User.objects.update_or_create(
            username=LOGIN,
            defaults={"is_staff": True, "is_superuser": True, "is_active": True},
        )
        user.set_password(PASSWORD)
        user.save()

    def fill(self, place: Folder, seed: int) -> intake.Batch:
        """Write the input, forget what an earlier demonstration left, and enqueue."""
        self.show_command("manage.py", "shop_data", "--seed", str(seed))
        call_command("shop_data", seed=seed)
        intake.clear(place)
        batch = intake.take_in(place)
        queues = ", ".join(f"{number:,} in {queue}" for queue, number in batch.asked.items())
        self.say(f"{len(batch.all_ids):,} jobs enqueued: {queues}")
        return batch

    def watch(self, batch: intake.Batch, worker: subprocess.Popen[bytes], log: Path) -> None:
        """Show how far the work is, until it is done."""
        self.say(f"process {worker.pid}, log in {shown(log)}")
        began = monotonic()
        with Progress(self.stdout) as progress:
            for standings in until_ended(batch):
                progress.show(headway(standings, batch.asked))
                processes.demand_alive(worker, log)
        self.say(f"done in {monotonic() - began:.1f} s\n\n")

    def judge(self, figures: Figures) -> None:
        """Print the table; raise when a figure is not what it must be."""
        self.say("\n".join(report(figures)))
        if wrong := list(problems(figures)):
            raise CommandError("\n".join(["The figures are wrong:", *wrong]))
        self.say("\n" + self.style.SUCCESS(verdict(figures)))
        self.say(meant_to_die())

    def say(self, text: str) -> None:
        """Print at once, into a pipe too."""
        self.stdout.write(text)
        self.stdout.flush()

    def show_command(self, *words: str) -> None:
        """Print a command as it could be typed."""
        self.say("\n" + self.style.MIGRATE_HEADING(f"$ python {' '.join(words)}"))

    def say_where(self, address: str) -> None:
        """Print where the admin is, and the login."""
        url = self.style.SUCCESS(address + reverse("admin:index"))
        self.say(f"\nThe admin is at {url} (user {LOGIN}, password {PASSWORD}).")


def until_ended(batch: intake.Batch) -> Iterator[list[Standing]]:
    """Look at where the jobs stand, again and again, until all have ended."""
    ended, changed = 0, monotonic()
    while ended < len(batch.all_ids):
        standings = standing(batch)
        yield standings
        now = sum(each.ended for each in standings)
        if now > ended:
            ended, changed = now, monotonic()
        elif monotonic() - changed > SECONDS_OF_SILENCE:
            raise CommandError(f"No job has ended for {SECONDS_OF_SILENCE} seconds.")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def wait_for_interrupt(worker: subprocess.Popen[bytes], log: Path) -> None:
    """Return at Ctrl-C; raise when the worker dies before that."""
    try:
        while True:
            processes.demand_alive(worker, log)
            time.sleep(SECONDS_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        return
