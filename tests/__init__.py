"""The tests of django_jobs, laid out as the package is."""
