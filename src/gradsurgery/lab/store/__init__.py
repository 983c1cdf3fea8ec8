"""The store: every run in one SQLite file."""
