"""Persistence over restarts: the port of stores, their records, SQLite and PostgreSQL (docs/operate/durability.md)."""
