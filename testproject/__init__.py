"""A small shop that shows django_jobs at work: the demo and the tests run it."""
