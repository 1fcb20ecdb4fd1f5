"""The store in one SQLite file: a process that writes, and readers beside it."""
