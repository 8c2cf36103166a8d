"""The tests of the verbs."""
