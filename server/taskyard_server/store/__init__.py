"""Persistence over restarts: the port of stores, the records that they keep, and SQLite (docs/keeping.md)."""
