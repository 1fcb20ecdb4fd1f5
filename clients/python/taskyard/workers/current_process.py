"""The mark of a process that is a worker."""

is_worker = False
"""Set by `worker.main`."""
