"""A side table in which test tasks note that they ran."""
