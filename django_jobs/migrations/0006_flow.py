"""Limits and dependencies, tables of their own."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0005_event_placement")]

    operations = [
        migrations.CreateModel(
            name="Dependency",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("parent", models.BigIntegerField()),
                ("child", models.BigIntegerField()),
            ],
            options={
                "verbose_name": "dependency",
                "verbose_name_plural": "dependencies",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Limit",
            fields=[
                ("key", models.TextField(primary_key=True, serialize=False)),
                (
                    "size",
                    models.IntegerField(
                        blank=True, help_text="of the newest claimed job", null=True
                    ),
                ),
                (
                    "override",
                    models.IntegerField(blank=True, help_text="an operator's size", null=True),
                ),
                ("in_use", models.IntegerField(db_default=0)),
                ("next_at", models.DateTimeField(blank=True, help_text="by the rate", null=True)),
                (
                    "every",
                    models.FloatField(
                        blank=True, help_text="seconds between two starts", null=True
                    ),
                ),
                ("burst", models.IntegerField(blank=True, null=True)),
                ("patient", models.BooleanField(null=True)),
                ("wanted", models.IntegerField(db_default=0)),
                ("unrated", models.IntegerField(db_default=0)),
                ("granted", models.IntegerField(db_default=0)),
                ("passed", models.IntegerField(db_default=0)),
                ("deferred", models.IntegerField(db_default=0)),
            ],
            options={
                "verbose_name": "limit",
                "verbose_name_plural": "limits",
                "permissions": [("change_size_limit", "Can change the size of limits")],
                "default_permissions": ("view",),
            },
        ),
        migrations.AddIndex(
            model_name="dependency",
            index=models.Index(fields=["child"], name="django_jobs_dependency_child"),
        ),
        migrations.AddConstraint(
            model_name="dependency",
            constraint=models.UniqueConstraint(
                fields=("parent", "child"), name="django_jobs_dependency_parent"
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(("in_use__gte", 0)),
                name="django_jobs_limit_in_use_not_negative",
            ),
        ),
    ]
