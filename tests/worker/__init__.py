"""The tests of the worker."""
