"""A Django project with django_jobs in it."""
