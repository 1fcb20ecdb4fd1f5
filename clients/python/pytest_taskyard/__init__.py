"""The pytest plugin: the fixtures `yard`, `sync_yard` and `yard_options`. Nothing else is imported until one is used.

It stands beside the package `taskyard`, whose import costs what a run without a yard should not pay for.
"""

from .fixtures import pytest_configure, sync_yard, taskyard_by_anyio, taskyard_environment, yard, yard_options

__all__ = ["pytest_configure", "sync_yard", "taskyard_by_anyio", "taskyard_environment", "yard", "yard_options"]
