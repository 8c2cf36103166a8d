"""Give a limit key a size of the operator's own, or none any more."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from django.db import transaction

from django_jobs.conf import shown
from django_jobs.exceptions import Refused
from django_jobs.limits import LARGEST
from django_jobs.operations.act import Actor, recorded
from django_jobs.operations.follow import wake
from django_jobs.sql import SiteDatabase

NOBODY = UUID(int=0)  # no worker looks by itself for what is woken here


def set_limit(key: str, size: int | None, *, actor: Actor, reason: str, database: str) -> None:
    """Let ``size`` jobs of ``key`` run at a time; None: what the jobs themselves say.

    It is in force as soon as it is committed, and then wakes the jobs that it makes room for;
    what runs goes on. Raises Refused, and writes nothing, for a blank reason, a size that
    cannot be one, or a key of which no job has been claimed yet.
    """
    if not reason.strip():
        raise Refused("Say why the limit is changed: whoever finds it so will ask.")
    if size is not None and not (type(size) is int and 0 <= size <= LARGEST):
        raise Refused(f"size={shown(size)} must be a whole number from 0 to {LARGEST:,}.")
    said = "what its jobs say" if size is None else str(size)
    params = recorded("set_limit", actor, scope=f"limit {key} to {said}", reason=reason)
    params |= {"key": key, "size": size}
    if "\0" in key or not SiteDatabase(database).fetch("set_limit", params):
        raise Refused(f"No job of the limit key {shown(key)} has been claimed yet.")
    room = partial(wake, [key], worker=NOBODY, database=SiteDatabase(database))
    transaction.on_commit(room, using=database, robust=True)  # a sweeper repeats it
