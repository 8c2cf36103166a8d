"""Lists that cost the same at ten rows and at ten million."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import OperationalError, connections, transaction
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.functional import cached_property

if TYPE_CHECKING:
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator

T = TypeVar("T")

MOST = 10_000  # rows that a list can be paged through; more are only said to be there
SECONDS = 2  # that the statements of a list may take


class BoundedPaginator(AnyPaginator):
    """Counts no further than one row beyond ``MOST``."""

    @cached_property
    def found(self) -> int:
        """How many rows there are, up to ``MOST`` + 1."""
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[: MOST + 1].count())

    @cached_property
    def count(self) -> int:
        """How many rows can be paged through."""
        return min(self.found, MOST)

    @property
    def has_more(self) -> bool:
        """Whether there are rows beyond."""
        return self.found > MOST

    @property
    def total(self) -> str:
        """The number as a page says it: ``10k+`` when it was not counted to the end."""
        return "10k+" if self.has_more else number_format(self.found)


class BoundedChangeList(ChangeList):
    """Keeps to the one order that an index serves; has its rows read when it is made."""

    def get_ordering(self, request: HttpRequest, queryset: Any) -> list[Any]:
        """Return the page's own order, whatever the address asks for."""
        return list(self.model_admin.ordering or ("-pk",))

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of this page now, within the time limit."""
        super().get_results(request)
        self.result_list = list(self.result_list[: self.list_per_page])
        self.full_result_count = self.result_count  # the search box claims no other total


@contextmanager
def time_limit(database: str) -> Iterator[None]:
    """Let the database end a statement that takes longer than ``SECONDS``.

    It compiles none either: that takes longer than to run one that is bounded.
    """
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('statement_timeout'), current_setting('jit'),"
            " set_config('statement_timeout', %s, true), set_config('jit', 'off', true)",
            [f"{SECONDS}s"],
        )
        before = cursor.fetchone()[:2]
        yield
        # the caller may be in a transaction that goes on
        cursor.execute(
            "SELECT set_config('statement_timeout', %s, true), set_config('jit', %s, true)", before
        )


def in_time(read: Callable[[], T], database: str) -> T | None:
    """Return what ``read`` returns; None when the time limit stopped it."""
    try:
        with time_limit(database):
            return read()
    except OperationalError as error:
        if not was_stopped(error):
            raise
        return None


def was_stopped(error: OperationalError) -> bool:
    """Tell whether it was the time limit that ended a statement."""
    return isinstance(error.__cause__, psycopg.errors.QueryCanceled)
