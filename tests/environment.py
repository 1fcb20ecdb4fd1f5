"""The environment without the settings of Taskyard, so that no test depends on those of the person who runs it.

A server that starts in it keeps nothing: the default would be one file of that person for all tests.
"""

import os
from collections.abc import Iterable

KEEP_NOTHING = {"TASKYARD_STORE__URL": "memory://"}
SETTINGS = ("TASKYARD_", "GENIE_", "SHUTDOWN_GRACE_PERIOD_SECONDS")


def settings_in(names: Iterable[str]) -> list[str]:
    """Those of the names that are settings."""
    return [name for name in names if name.upper().startswith(SETTINGS)]


def without_settings() -> dict[str, str]:
    """The environment of this process without them, for a server that keeps nothing."""
    return {name: value for name, value in os.environ.items() if name not in settings_in(os.environ)} | KEEP_NOTHING
