"""A Django project with django-tasks-db in it."""
