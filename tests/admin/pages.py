"""Addresses of the admin's pages, and what stands on them."""

from __future__ import annotations

from html import unescape
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse

JOBS = "/admin/django_jobs/job/"
DEAD = "/admin/django_jobs/deadletter/"
QUEUES = "/admin/django_jobs/queue/"
WORKERS = "/admin/django_jobs/worker/"
ACTIVITY = "/admin/django_jobs/activity/"
SKIPS = "/admin/django_jobs/skip/"
LIMITS = "/admin/django_jobs/limit/"
SCHEDULES = "/admin/django_jobs/schedule/"
LISTS = (JOBS, DEAD, QUEUES, WORKERS, SCHEDULES, SKIPS, LIMITS, ACTIVITY)


def page_of(pk: object) -> str:
    """The address of a job's page."""
    return reverse("admin:django_jobs_job_change", args=[pk])


def page_of_queue(name: str, backend: str = "default") -> str:
    """The address of a queue's page."""
    return f"{QUEUES}page/?{urlencode({'backend': backend, 'queue': name})}"


def verb_on(verb: str, pk: int) -> str:
    """The address of a verb on one job."""
    return f"{JOBS}{pk}/{verb}/"


def shown(client: Client, address: str) -> str:
    """What a page shows, which is well."""
    response = client.get(address)
    assert 200 == response.status_code, (address, response.status_code)
    return response.content.decode()


def goal(response: Any) -> str:
    """Where a redirect leads."""
    assert 302 == response.status_code, response.status_code
    return str(response.url)


def choose(client: Client, action: str, *ids: object, at: str = DEAD, **more: Any) -> Any:
    """Tick rows of a list and run an action."""
    data = {"action": action, ACTION_CHECKBOX_NAME: ids, "index": "0", **more}
    return client.post(at, data)


def scope_in(response: Any) -> str:
    """What the form of a confirmation carries."""
    text = response.content.decode()
    return unescape(text.split('name="scope" value="')[1].split('"')[0])


def told(client: Client, response: Any) -> list[str]:
    """The messages on the page that a redirect leads to."""
    return [str(message) for message in client.get(goal(response)).context["messages"]]
