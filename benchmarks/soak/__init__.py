"""Workers are killed and PostgreSQL crashes while jobs run; then SQL counts what it did."""
