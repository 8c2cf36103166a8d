"""A small shop whose slow work is done by jobs; start reading in tasks.py."""
