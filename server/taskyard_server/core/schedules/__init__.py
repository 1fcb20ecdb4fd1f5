"""Schedules and their triggers: when they come due, and how each trigger becomes a task.

This is the only package within the core. `registry.py` is its entry point.
"""
