"""One limit: its address, who may change it, and the form that does."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from django_jobs.limits import LARGEST


def may_change(request: HttpRequest) -> bool:
    """Tell whether the user may change sizes, which takes looking at them."""
    return bool(
        request.user.has_perms(("django_jobs.change_size_limit", "django_jobs.view_limit"))
    )


def limit_url(key: str, site: admin.AdminSite) -> str:
    """Return the address of the list with this key alone."""
    url = reverse("admin:django_jobs_limit_changelist", current_app=site.name)
    return f"{url}?{urlencode({'q': key})}"


def shown_to(request: HttpRequest, key: str, site: admin.AdminSite) -> SafeString | str:
    """Return a key, leading to its limit those who may look at it."""
    if not request.user.has_perm("django_jobs.view_limit"):
        return key
    return format_html('<a href="{}">{}</a>', limit_url(key, site), key)


class SizeForm(forms.Form):
    """How many, and why."""

    size = forms.IntegerField(
        label=gettext_lazy("Size"), required=False, min_value=0, max_value=LARGEST,
        help_text=gettext_lazy("How many jobs of the key run at a time in the whole fleet; 0 stops"
                               " it. Empty: what the jobs themselves say."),
    )  # fmt: skip
    reason = forms.CharField(
        label=gettext_lazy("Reason"), max_length=500,
        help_text=gettext_lazy("It is kept in the activity."),
    )  # fmt: skip
