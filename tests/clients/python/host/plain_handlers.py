"""A module of handlers as most are written: a host, its actions and their functions."""

import sys
from dataclasses import dataclass

from taskyard import Action, Host, RunningTask

host = Host("127.0.0.1:1", "host-1")


@dataclass
class Name:
    name: str


look_up = Action[Name, bool]("look_up")


@host.handles(look_up, runs_in="process")
def is_imported(name: Name, task: RunningTask) -> bool:
    """Say whether the worker process has imported a module."""
    assert task.input == name
    return name.name in sys.modules
