"""The admin in a real browser: ``make browser``, apart from ``make test``."""
