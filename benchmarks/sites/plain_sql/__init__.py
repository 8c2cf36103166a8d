"""The statements of django_jobs without Django."""
