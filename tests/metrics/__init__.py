"""Metrics: what is counted, what is asked, and how it is served."""
