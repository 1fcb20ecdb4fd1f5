"""A handler that runs in a worker process, which imports it from here."""

import os

from taskyard import RunningTask


def where(task: RunningTask) -> list[int]:
    """Tell which process runs it, and whose child that is."""
    return [os.getpid(), os.getppid(), task.attempt]
