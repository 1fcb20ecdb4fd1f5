"""Tests of tasks: a real server in the test's process, whose time stands still until the test moves it.

pytest finds the fixtures `yard` and `sync_yard` by itself; `Yard` and `SyncYard` are the same for other frameworks.
Install `taskyard[testing]`.
"""

from .errors import StillRunning, YardError
from .sync_yard import SyncYard
from .yard import Yard
from .yard_host import YardHost

__all__ = ["StillRunning", "SyncYard", "Yard", "YardError", "YardHost"]
