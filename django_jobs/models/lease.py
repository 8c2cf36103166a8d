"""The right of one worker to run one attempt."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_jobs.models.fields import JSONText


class LeaseQuerySet(models.QuerySet["Lease"]):
    """Adjectives for leases."""

    def lapsed(self) -> LeaseQuerySet:
        """Leases that nobody renewed in time."""
        return self.filter(expires_at__lte=Now())


class Lease(models.Model):
    """Exists as long as its job is running; its id, new at every claim, is the fence.

    There is no index on ``expires_at``: it would make every renewal a new index entry,
    and the table is as small as the fleet's cap.
    """

    id = models.BigAutoField(primary_key=True)
    job_id = models.BigIntegerField(unique=True)
    worker = models.UUIDField()
    graced = models.BooleanField(db_default=False)
    expires_at = models.DateTimeField()
    limit_key = models.TextField(null=True, blank=True, help_text=_("whose permit it holds"))
    timed_out_at = models.DateTimeField(
        null=True, blank=True, help_text=_("its run is over its timeout and has not ended")
    )
    progress = JSONText(null=True, blank=True, help_text=_("what its run says of itself"))

    objects = LeaseQuerySet.as_manager()

    def __str__(self) -> str:
        """Name the lease and its job."""
        return f"lease {self.pk} of job {self.job_id}"
