"""Whether this process is a worker."""

is_worker = False
"""Set by `worker.main`."""
