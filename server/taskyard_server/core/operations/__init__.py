"""Bulk operations: one change of many tasks, a portion at a time."""
