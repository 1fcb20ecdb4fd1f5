"""Tests of tasks: a real server in the test's process, whose time stands still until the test moves it.

pytest finds the fixtures `yard` and `sync_yard` by itself; `Yard` and `SyncYard` are the same for other frameworks.
`running_task` makes the task of a unit test, without a server. Install `taskyard[testing]`.
"""

from .errors import StillRunning, YardError
from .recorded_task import HandlerOutcome, RecordedTask, running_task
from .sync_yard import SyncYard
from .yard import Yard
from .yard_host import YardHost

__all__ = [
    "HandlerOutcome",
    "RecordedTask",
    "StillRunning",
    "SyncYard",
    "Yard",
    "YardError",
    "YardHost",
    "running_task",
]
