"""The tests of the answers to probes."""
